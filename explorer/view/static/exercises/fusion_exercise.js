// Exercise on fusion: the reader predicts whether both ends of an edge will run as one kernel.

import { Exercise, keyButton } from "./exercise.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";

/**
 * @typedef {{key: string, nodes: [number, number], decision: number, isFused: boolean}} Question
 *   the ends of an edge, operand and reader, and the decision that fuses them or keeps them apart
 */

const HOW = "Or ask about another edge: click it, or one of its nodes.";

/** Questions about the edges with a recorded decision. */
export class FusionExercise extends Exercise {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    const { groups } = view.trace.recording;
    const kernels = groups.filter(({ kind }) => kind === "kernel").map(({ decision }) => decision);
    super(view, view.timeline.stages.findIndex(({ first, last }) => kernels.some((decision) => first <= decision && decision < last)));
    /** @type {Question | null} the edge that the reader chose */ this.chosen = null;
  }

  /** @type {Question[] | undefined} */ #known = undefined;
  /** @type {Map<string, Question[]> | undefined} a drawn edge, "box:from:to" → the questions about it */ #drawn = undefined;

  clear() {
    super.clear();
    this.chosen = null;
  }

  /** All questions in the planner's order. If an edge has several decisions, the one that fuses it counts, else the last. @returns {Question[]} */
  get questions() {
    this.#known ??= this.#find();
    return this.#known;
  }

  #find() {
    const { trace, timeline } = this.view;
    const { first, last } = timeline.stages[this.stage];
    /** @type {Map<string, Question>} */ const questions = new Map();
    const enter = (operand, reader, decision, isFused) => {
      const key = `${operand} ${reader}`;
      if (!questions.get(key)?.isFused) questions.set(key, { key, nodes: [operand, reader], decision, isFused });
    };
    const final = trace.resolver(last).slice();
    for (const { kind, decision, members } of trace.recording.groups) {
      if (kind !== "kernel" || decision < first || decision >= last) continue;
      const inside = new Set(members);
      for (const reader of members) {
        for (const operand of trace.nodes.operands[reader]) if (inside.has(trace.origin(final[operand]))) enter(trace.origin(final[operand]), reader, decision, true);
      }
    }
    for (let decision = first; decision < last; decision++) {
      for (const [operand, reader] of trace.declinedEdges(decision, decision + 1)) enter(trace.origin(operand), reader, decision, false);
    }
    return [...questions.values()].sort((a, b) => a.decision - b.decision);
  }

  /** Return the moment before anything is fused. */
  start() {
    return this.view.timeline.undecided(this.stage);
  }

  /** Question of the next decision, undefined after the last. */
  get upcoming() {
    const { position } = this.view.now;
    return this.questions.find(({ decision }) => decision >= position && !this.answers.has(decision));
  }

  /** Open question: the one that the reader chose, else the next decision's. */
  get open() {
    return this.chosen ?? this.upcoming;
  }

  /** Return a moment with later decisions hidden. Answers that were stepped over count as shown, not predicted. @param {import("../data/timeline.js").Moment} moment */
  framed(moment) {
    const from = this.view.now.position;
    const shown = this.questions.filter(({ decision }) => from <= decision && decision < moment.position && !this.answers.has(decision));
    for (const { decision } of shown) this.answers.set(decision, false);
    this.answer = shown.length ? { text: `Shown: ${this.#solution(shown.at(-1))}`, verdict: "" } : null;
    this.chosen = null;
    return moment;
  }

  /** Show whether the open question's edge is fused. */
  reveal() {
    const { open, view } = this;
    if (!open) return;
    if (open === this.upcoming) return view.go(view.timeline.afterDecision(open.decision));
    this.note(open.decision, false);
    this.chosen = null;
    this.say(`Shown: ${this.#solution(open)}`, "");
    this.seek();
  }

  /** Handle the prediction for the open question. @param {boolean} isFused */
  judge(isFused) {
    const { open, view } = this;
    if (!open) return true;
    const isRight = isFused === open.isFused;
    const isNext = open === this.upcoming;
    this.note(open.decision, isRight);
    if (isNext) view.go(view.timeline.afterDecision(open.decision));
    this.chosen = null;
    this.say(`${isRight ? "Right" : "No"}. ${this.#solution(open)}`, isRight ? "applied" : "declined");
    this.seek();
    return true;
  }

  /** Ask about the edge that was clicked, or the next edge of a clicked node. @param {string} key @param {string} edge */
  take(key, edge) {
    const { view } = this;
    const { trace, scene } = view;
    if (key) view.focus.set(key, true);
    if (edge) return this.#ask(this.#about(edge), "The recording has no decision about this edge, so nothing is fused there.");
    if (key[0] === "b") return this.say(this.boxed(key), "");
    if (!key) return;
    const { node } = scene.slots.get(Number(key.slice(1)));
    this.#ask(this.questions.filter(({ nodes }) => nodes.includes(node)), `The recording has no decision about an edge of ${trace.label(node)}.`);
  }

  /** Open the first unanswered question of a list, or the one after the open one. @param {Question[]} questions @param {string} none */
  #ask(questions, none) {
    const waiting = questions.filter(({ decision }) => decision >= this.view.now.position && !this.answers.has(decision));
    if (!questions.length) return this.say(none, "");
    if (!waiting.length) return this.say(this.#solution(questions[0]), "");
    this.chosen = waiting[(waiting.indexOf(this.open) + 1) % waiting.length];
    this.answer = null;
    this.view.show();
  }

  /** @param {string} edge @returns {Question[]} */
  #about(edge) {
    if (!this.#drawn) {
      this.#drawn = new Map();
      for (const question of this.questions) {
        for (const piece of this.#pieces(question)) this.#drawn.set(piece, [...(this.#drawn.get(piece) ?? []), question]);
      }
    }
    return this.#drawn.get(edge) ?? [];
  }

  /** Return the drawn segments of a question's edge. @param {Question} question @returns {string[]} */
  #pieces({ nodes }) {
    const { trace, paths } = this.view;
    const [start, end] = nodes.map((node) => trace.slotOf[node]);
    return start < 0 || end < 0 || start === end ? [] : paths.segments(start, end).map((piece) => piece.join(":"));
  }

  marked() {
    const { open } = this;
    if (!open) return undefined;
    const slots = open.nodes.map((node) => this.view.trace.slotOf[node]).filter((slot) => slot >= 0);
    return { slots: new Map(slots.map((slot) => [slot, "asked"])), edges: new Set(this.#pieces(open)) };
  }

  /** @param {Question} question */
  #solution({ nodes, decision, isFused }) {
    return `${this.#pair(nodes)} ${isFused ? "run as one kernel" : "do not run as one kernel"}: ${this.view.trace.plainSentence(decision)}`;
  }

  #pair(nodes) {
    return nodes.map((node) => this.view.trace.label(node)).join(" and ");
  }

  /** Return the line above the canvas, shown instead of a moment's sentence and read aloud by screen readers. */
  saying() {
    const { open, questions, answers } = this;
    const all = new Set(questions.map(({ decision }) => decision)).size;
    const place = open ? `predict ${grouped(answers.size + 1)} of ${grouped(all)}` : `all ${grouped(all)} settled`;
    const words = [this.answer?.text ?? (answers.size ? "" : "What is fused is hidden."), open ? this.#question(open) : this.score()];
    return { place, verdict: "", fragments: [{ text: words.filter(Boolean).join(" "), node: -1 }] };
  }

  /** @param {Question} question */
  #question({ nodes }) {
    return `Will ${this.#pair(nodes)} run as one kernel? y: yes, n: no.`;
  }

  /** Return the panel's content: the question, the score, and the edges answered so far. */
  content() {
    const { open, answers } = this;
    const answered = this.questions.filter(({ decision }) => answers.has(decision)).reverse();
    const shown = html("button", { class: "ex-link", type: "button", click: () => this.reveal() }, "show the answer");
    return this.sheet({
      title: open ? "predict what is fused" : "every edge is settled",
      about: "Two operations in one kernel pass a value on without writing it to memory. The planner decides this for each edge.",
      question: open && this.#question(open),
      how: open && HOW,
      acts: open ? [keyButton("one kernel", "y", () => this.judge(true)), keyButton("apart", "n", () => this.judge(false)), shown] : [],
      caption: "settled so far",
      rows: answered.map(({ key, nodes, isFused, decision }) => [key, this.#pair(nodes), `${isFused ? "one kernel" : "apart"}, ${answers.get(decision) ? "right at once" : "not at once"}`]),
    });
  }
}
