// Exercises: the decisions of a stage are hidden, and the reader predicts them. The score counts the questions answered correctly at the first attempt.

import { heading, nodeList } from "../panel/elements.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";
import { around } from "../scene/outlines.js";

/**
 * @typedef {{slots: Map<number, string>, edges?: Set<string>, veiled?: Set<string>}} Asked
 *   the marks of a question: its slots and edges, and the edges that would reveal the answer
 * @typedef {{title: string, about: string, question?: string, how?: string, acts: (Node | string)[], caption: string, rows: [string, string, string][]}} Sheet
 *   the panel's content; rows: [key, question, answer], the last one first
 */

/** px around the nodes of a question. */
const MARGIN = 22;

/** Questions about one stage of one view. */
export class Exercise {
  /** @param {import("../view.js").View} view @param {number} stage −1 if there are no questions */
  constructor(view, stage) {
    this.view = view;
    this.stage = stage;
    this.clear();
  }

  /** Clear all answers. */
  clear() {
    /** @type {Map<number, boolean>} question that was asked → whether the first answer was right and given without a hint */ this.answers = new Map();
    /** the response to the last answer @type {{text: string, verdict: string} | null} */ this.answer = null;
    this.hinted = false;
  }

  get isPossible() {
    return this.stage >= 0;
  }

  /** Number of questions answered correctly at the first attempt. */
  get right() {
    return [...this.answers.values()].filter(Boolean).length;
  }

  /** Record an answer if it is the first one to its question. @param {number} question @param {boolean} isRight */
  note(question, isRight) {
    if (!this.answers.has(question)) this.answers.set(question, isRight);
  }

  /** Show the response to an answer. @param {string} text @param {string} verdict */
  say(text, verdict) {
    this.answer = { text, verdict };
    this.view.show();
  }

  score() {
    return `${grouped(this.right)} of ${grouped(this.answers.size)} right at once.`;
  }

  /** Return the moment before the first answer. @returns {import("../data/timeline.js").Moment} */
  start() {
    return this.view.now;
  }

  /** Return a moment of this exercise with its answers hidden. @param {import("../data/timeline.js").Moment} moment */
  framed(moment) {
    return moment;
  }

  /** Return the line above the canvas, shown instead of a moment's sentence and read aloud by screen readers. @returns {{place: string, verdict: string, fragments: import("../data/trace.js").Fragment[]}} */
  saying() {
    return { place: "", verdict: "", fragments: [] };
  }

  /** Return the panel's content. @returns {Element[]} */
  content() {
    return [];
  }

  /** Return the slots and edges of the open question, undefined if the reader has to find them. @returns {Asked | undefined} */
  marked() {
    return undefined;
  }

  /** Scroll the nodes of the question into view. */
  seek() {
    const { placement, camera } = this.view;
    const rects = [...(this.marked()?.slots ?? [])].filter(([, mark]) => mark === "asked").map(([slot]) => placement.shows(slot)).filter(Boolean);
    if (rects.length) camera.reveal(around(rects, MARGIN));
  }

  /** Give a hint on the open question; return false if there is none. */
  hint() {
    return false;
  }

  /** Handle "yes" or "no"; return false if the question is not a yes-or-no question. @param {boolean} _isYes @returns {boolean} */
  judge(_isYes) {
    return false;
  }

  /** Handle an item that was clicked on the canvas or chosen by Enter. @param {string} _key "n7", "b2" or "" @param {string} _edge the edge that was clicked, or "" */
  take(_key, _edge) {}

  /** Go to another question with the step keys; return false if a step changes the moment instead. @param {number} _by @returns {boolean} */
  step(_by) {
    return false;
  }

  /** Whether a moment belongs to this exercise. @param {import("../data/timeline.js").Moment} moment */
  keeps(moment) {
    return moment.stage === this.stage && !moment.whole;
  }

  /** Return the sentence asking the reader to choose a node inside a box. @param {string} key "b2" */
  boxed(key) {
    const { trace, placement } = this.view;
    const box = Number(key.slice(1));
    return `${trace.layout.boxes[box].text[0]} is a box: ${placement.composed.has(box) ? "choose a node in it" : "open it by a double click, or by +, and choose a node in it"}.`;
  }

  /** Return the panel's content: the task, the response to the last answer, the score, and the questions answered so far. @param {Sheet} sheet */
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

/** Questions asked in sequence at one moment: a step forward shows the answer, a step back repeats the previous question. @template Question */
export class Series extends Exercise {
  clear() {
    super.clear();
    /** index of the open question */ this.at = 0;
  }

  /** All questions in order. @returns {Question[]} */
  get questions() {
    return [];
  }

  /** The open question, undefined after the last. */
  get open() {
    return this.questions[this.at];
  }

  /** Answer the open question. */
  reveal() {}

  /** Return false, because all other moments show the answers. */
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

  /** Return the line above the canvas, shown instead of a moment's sentence and read aloud by screen readers. @param {string} hidden sentence on the hidden part @param {string} question */
  line(hidden, question) {
    const { questions, answers } = this;
    const all = grouped(questions.length);
    const isOpen = this.at < questions.length;
    const place = isOpen ? `predict ${grouped(this.at + 1)} of ${all}` : `all ${all} settled`;
    const words = [this.answer?.text ?? (answers.size ? "" : hidden), isOpen ? question : this.score()];
    return { place, verdict: "", fragments: [{ text: words.filter(Boolean).join(" "), node: -1 }] };
  }
}

/** Format names as "a", "a and b", "a, b and c". @param {string[]} names */
export function listed(names) {
  const unique = [...new Set(names)];
  return unique.length > 1 ? `${unique.slice(0, -1).join(", ")} and ${unique.at(-1)}` : unique[0];
}

/** Show a moment even if the view is at its step already. @param {import("../view.js").View} view @param {import("../data/timeline.js").Moment} moment */
export function stand(view, moment) {
  view.now = moment;
  view.callbacks.onMoment?.(moment);
  view.show();
  view.callbacks.onState?.({ step: moment.step, stage: view.stageName });
}

/** Make a button of the panel that does the same as a key. */
export function keyButton(text, key, click) {
  return html("button", { class: "ex-link", type: "button", click }, text, " ", html("kbd", {}, key));
}
