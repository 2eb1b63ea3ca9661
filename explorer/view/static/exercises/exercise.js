// Exercises: the decisions of a stage are hidden, and a reader predicts them; a score counts the questions that were right at once.

import { heading, nodeList } from "../panel/elements.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";
import { around } from "../scene/outlines.js";

/**
 * @typedef {{slots: Map<number, string>, edges?: Set<string>, veiled?: Set<string>}} Asked
 *   the marks of a question: the slots and the edges that it is about, and edges that would give the answer away
 * @typedef {{title: string, about: string, question?: string, how?: string, acts: (Node | string)[], caption: string, rows: [string, string, string][]}} Sheet
 *   content of the panel; rows: [key, question, answer], the last one first
 */

/** px around the nodes that a question is about. */
const MARGIN = 22;

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
    /** the response to the last answer @type {{text: string, verdict: string} | null} */ this.answer = null;
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

  /** The moment at which nothing is answered. @returns {import("../data/timeline.js").Moment} */
  start() {
    return this.view.now;
  }

  /** A moment of this exercise as it is shown, its answers hidden. @param {import("../data/timeline.js").Moment} moment */
  framed(moment) {
    return moment;
  }

  /** The line over the canvas, in the place of a moment's sentence: it is read out. @returns {{place: string, verdict: string, fragments: import("../data/trace.js").Fragment[]}} */
  saying() {
    return { place: "", verdict: "", fragments: [] };
  }

  /** Content of the panel. @returns {Element[]} */
  content() {
    return [];
  }

  /** The slots and edges of the open question; nothing is marked where the reader looks for it. @returns {Asked | undefined} */
  marked() {
    return undefined;
  }

  /** Bring the nodes of the question into sight. */
  seek() {
    const { placement, camera } = this.view;
    const rects = [...(this.marked()?.slots ?? [])].filter(([, mark]) => mark === "asked").map(([slot]) => placement.shows(slot)).filter(Boolean);
    if (rects.length) camera.reveal(around(rects, MARGIN));
  }

  /** Help with the open question. */
  hint() {}

  /** Answer by yes or no, where that is the question; false where it is not. @param {boolean} _isYes @returns {boolean} */
  judge(_isYes) {
    return false;
  }

  /** Take an item that was clicked on the canvas, or chosen by Enter. @param {string} _key "n7", "b2" or "" @param {string} _edge the edge that was clicked, or "" */
  take(_key, _edge) {}

  /** Go to another question by the keys for a step; false where a step goes to another moment. @param {number} _by @returns {boolean} */
  step(_by) {
    return false;
  }

  /** Whether a moment is one of this exercise. @param {import("../data/timeline.js").Moment} moment */
  keeps(moment) {
    return moment.stage === this.stage && !moment.whole;
  }

  /** The sentence about a box in which a node is to be clicked. @param {string} key "b2" */
  boxed(key) {
    const { trace, placement } = this.view;
    const box = Number(key.slice(1));
    return `${trace.layout.boxes[box].text[0]} is a box: ${placement.composed.has(box) ? "choose a node in it" : "open it by a double click, or by +, and choose a node in it"}.`;
  }

  /** The panel: the task, the response to the last answer, the score, and the questions answered so far. @param {Sheet} sheet */
  sheet({ title, about, question = "", how = "", acts, caption, rows }) {
    const { answer, answers, view } = this;
    const known = new Map(rows.map(([key, ...texts]) => [key, texts]));
    const row = (key) => html("li", {}, `${known.get(key)[0]} `, html("span", { class: "ex-soft" }, known.get(key)[1]));
    return [
      html("h4", { "aria-level": 2 }, title),
      html("div", { class: "ex-sub" }, about),
      answer && html("p", { class: `ex-result ex-mark-${answer.verdict}` }, answer.text),
      question && html("p", {}, question),
      how && html("p", { class: "ex-note" }, how),
      html("div", { class: "ex-note" }, ...acts.flatMap((act) => [act, " · "]), keyButton("end", "Esc", () => view.prediction.end())),
      ...(answers.size ? [heading("score"), html("p", { class: "ex-score" }, this.score())] : []),
      ...(rows.length ? [heading(`${caption}, the last one first`), nodeList([...known.keys()], String, row)] : []),
    ].filter(Boolean);
  }
}

/** Questions that are asked one after the other at one moment: a step shows the answer, a step back asks the one before again. @template Question */
export class Series extends Exercise {
  clear() {
    super.clear();
    /** the open question's place */ this.at = 0;
  }

  /** All questions, in the order in which they are asked. @returns {Question[]} */
  get questions() {
    return [];
  }

  /** The open question, undefined after the last. */
  get open() {
    return this.questions[this.at];
  }

  /** Answer the open question. */
  reveal() {}

  /** No other moment is one of it: all others show the answers. */
  keeps() {
    return false;
  }

  start() {
    return this.view.timeline.undecided(this.stage);
  }

  /** @param {number} by */
  step(by) {
    if (by > 0) this.reveal();
    else this.ask(Math.max(0, this.at - 1));
    return true;
  }

  /** Ask a question. @param {number} place @param {string} [text] the response to the last answer @param {string} [verdict] */
  ask(place, text = "", verdict = "") {
    this.at = place;
    this.hinted = false;
    this.answer = text ? { text, verdict } : null;
    stand(this.view, this.start());
    this.seek();
  }

  /** The line over the canvas, in the place of a moment's sentence: it is read out. @param {string} hidden the part that is not shown @param {string} question */
  line(hidden, question) {
    const { questions, answers } = this;
    const all = grouped(questions.length);
    const isOpen = this.at < questions.length;
    const place = isOpen ? `predict ${grouped(this.at + 1)} of ${all}` : `all ${all} settled`;
    const words = [this.answer?.text ?? (answers.size ? "" : hidden), isOpen ? question : this.score()];
    return { place, verdict: "", fragments: [{ text: words.filter(Boolean).join(" "), node: -1 }] };
  }
}

/** "a", "a and b", "a, b and c". @param {string[]} names */
export function listed(names) {
  const unique = [...new Set(names)];
  return unique.length > 1 ? `${unique.slice(0, -1).join(", ")} and ${unique.at(-1)}` : unique[0];
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
