// Exercises: what a stage decides is hidden, and a reader says it; a score counts the questions that were right at once.

import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";

/** What a question is marked with: slots and edges that it is about. @typedef {{slots: Map<number, string>, edges: Set<string>}} Asked */

/** Questions on one stage of one view. */
export class Exercise {
  /** @param {import("../view.js").View} view @param {number} stage −1 where it has nothing to ask */
  constructor(view, stage) {
    this.view = view;
    this.stage = stage;
    this.clear();
  }

  /** Forget all answers. */
  clear() {
    /** @type {Map<number, boolean>} questions that were asked → whether the first answer was right, and unaided */ this.answers = new Map();
    /** what was said to the last answer @type {{text: string, verdict: string} | null} */ this.answer = null;
    this.hinted = false;
  }

  get isPossible() {
    return this.stage >= 0;
  }

  /** Questions that were right at once. */
  get right() {
    return [...this.answers.values()].filter(Boolean).length;
  }

  /** Count an answer, the first one to each question. @param {number} question @param {boolean} isRight */
  note(question, isRight) {
    if (!this.answers.has(question)) this.answers.set(question, isRight);
  }

  /** Say whether an answer is right, and why. @param {string} text @param {string} verdict */
  say(text, verdict) {
    this.answer = { text, verdict };
    this.view.show();
  }

  score() {
    return `${grouped(this.right)} of ${grouped(this.answers.size)} right at once.`;
  }

  /** What the open question is about; nothing is marked where the reader looks for it. @returns {Asked | undefined} */
  marked() {
    return undefined;
  }

  /** Help with the open question. */
  hint() {}

  /** Answer by yes or no, where that is the question; false where it is not. @param {boolean} _isYes @returns {boolean} */
  judge(_isYes) {
    return false;
  }

  /** Take what was clicked on the canvas, or chosen by Enter. @param {string} _key "n7", "b2" or "" @param {string} _edge the edge that was clicked, or "" */
  take(_key, _edge) {}
}

/** Show a moment at whose step a view may stand already. @param {import("../view.js").View} view @param {import("../data/timeline.js").Moment} moment */
export function stand(view, moment) {
  view.now = moment;
  view.callbacks.onMoment?.(moment);
  view.show();
  view.callbacks.onState?.({ step: moment.step, stage: view.stageName });
}

/** A line of the panel that acts as a key does. */
export function keyButton(text, key, click) {
  return html("button", { class: "ex-link", type: "button", click }, text, " ", html("kbd", {}, key));
}
