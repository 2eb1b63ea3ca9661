// Exercise on gradients: their operands are hidden, and the reader predicts which values of the forward pass are saved for them.

import { keyButton, listed, Series } from "./exercise.js";
import { GradientLinks } from "../scene/gradient_links.js";
import { grouped } from "../data/number_format.js";

const HOW = "Click each of these values, which are operands or results of the forward pass. Then press n.";

/** @typedef {{node: number, backward: number[], saved: number[]}} Question a forward node, the recorded nodes of its gradient, and the values of the forward pass that they read */

/** Questions about the operations with a recorded gradient. @extends {Series<Question>} */
export class GradientExercise extends Series {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    const { trace, timeline } = view;
    const { kind } = trace.nodes;
    const rows = (trace.recording.gradients ?? []).filter(({ node, backward }) => kind[node] !== "leaf" && trace.exists(node, 0) && backward.some((each) => trace.exists(each, 0)));
    super(view, rows.length ? timeline.stages.findIndex((stage) => stage.kind === "record") : -1);
    this.rows = rows;
    this.links = new GradientLinks(trace);
  }

  /** @type {Question[] | undefined} */ #known = undefined;
  /** @type {Map<string, number>} */ #namesakes = new Map();
  /** @type {Set<string> | undefined} */ #veil = undefined;
  /** @type {Map<number, string> | undefined} */ #parts = undefined;

  clear() {
    super.clear();
    /** @type {Set<number>} saved values that were clicked */ this.clicked = new Set();
  }

  /** All questions from the last operation to the first, in the direction of the gradient. @returns {Question[]} */
  get questions() {
    this.#known ??= this.#find();
    return this.#known;
  }

  #find() {
    const { trace } = this.view;
    const final = trace.resolver(0).slice();
    const questions = this.rows.map((row) => ({ node: row.node, backward: row.backward.filter((each) => trace.exists(each, 0)), saved: [...this.links.saved(row, final, 0)] }));
    return questions.sort((a, b) => b.node - a.node);
  }

  /** @param {number} place @param {string} [text] @param {string} [verdict] */
  ask(place, text, verdict) {
    this.clicked = new Set();
    super.ask(place, text, verdict);
  }

  /** Return the name of a node, with its line if another recorded node has the same name. @param {number} node */
  #name(node) {
    const { trace } = this.view;
    if (!this.#namesakes.size) {
      trace.nodes.label.forEach((label, each) => {
        if (trace.exists(each, 0) && !this.#gradientNodes.has(trace.slotOf[each])) this.#namesakes.set(label, (this.#namesakes.get(label) ?? 0) + 1);
      });
    }
    const [name, place] = [trace.label(node), trace.sourceText(node)];
    return place && this.#namesakes.get(name) > 1 && !this.#gradientNodes.has(trace.slotOf[node]) ? `${name} (${place})` : name;
  }

  /** Describe which operations of a gradient read which of the values: "multiply reads tanh, …". @param {Question} question @param {number[]} values */
  #reading({ backward }, values) {
    const { trace } = this.view;
    const readers = values.map((value) => {
      const nodes = backward.filter((each) => trace.nodes.operands[each].some((operand) => trace.origin(operand) === value));
      return `${listed(nodes.map((each) => this.#name(each)))} ${new Set(nodes.map((each) => this.#name(each))).size > 1 ? "read" : "reads"} ${this.#name(value)}`;
    });
    return listed(readers);
  }

  /** Describe the operations that compute a gradient. @param {Question} question */
  #computed({ backward }) {
    const names = [...new Set(backward.filter((each) => this.view.trace.nodes.kind[each] === "operation").map((each) => this.#name(each)))];
    const more = names.length > 5 ? ` and ${grouped(names.length - 5)} more` : "";
    return names.length ? `is computed by ${more ? names.slice(0, 5).join(", ") + more : listed(names)}` : "is passed on unchanged";
  }

  /** Return the sentence about the values saved for a gradient and the operations that read them. @param {Question} question */
  #solution(question) {
    const name = this.#name(question.node);
    if (!question.saved.length) return `The gradient of ${name} reads no value of the forward pass, so nothing is saved for it: it ${this.#computed(question)}.`;
    return `Saved for the gradient of ${name}: ${listed(question.saved.map((each) => this.#name(each)))}. It ${this.#computed(question)}; ${this.#reading(question, question.saved)}.`;
  }

  /** Handle an answer: a value that the gradient reads. @param {string} key "n7", "b2" or "" */
  take(key) {
    const { view, open: question } = this;
    if (!key || !question) return;
    view.focus.set(key, true);
    if (key[0] === "b") return this.say(this.boxed(key), "");
    const { trace, scene } = view;
    const node = trace.origin(scene.slots.get(Number(key.slice(1))).node);
    const name = this.#name(node);
    if (this.clicked.has(node)) return this.say(`${name} is marked already.`, "");
    if (question.saved.includes(node)) {
      this.clicked.add(node);
      return this.say(`Right: ${this.#reading(question, [node])}. Is that all?`, "applied");
    }
    if (this.#gradientNodes.has(trace.slotOf[node])) return this.say(`${name} is part of a gradient, not a value of the forward pass.`, "");
    this.note(question.node, false);
    this.say(`No. The gradient of ${this.#name(question.node)} does not read ${name}: it ${this.#computed(question)}.`, "declined");
  }

  /** Handle the answer on whether the gradient reads more than the clicked values. @param {boolean} isYes whether there is more */
  judge(isYes) {
    const { open: question } = this;
    if (!question) return true;
    if (isYes) this.say("Which one? Click it.", "");
    else this.#close(question);
    return true;
  }

  #close(question) {
    const isRight = question.saved.every((each) => this.clicked.has(each));
    this.note(question.node, isRight);
    this.ask(this.at + 1, `${isRight ? "Right. " : "No, there is more. "}${this.#solution(question)}`, isRight ? "applied" : "declined");
  }

  /** Show the values saved for the open question's gradient. */
  reveal() {
    const { open: question } = this;
    if (!question) return;
    this.note(question.node, false);
    this.ask(this.at + 1, `Shown: ${this.#solution(question)}`);
  }

  /** Mark the nodes that compute the open question's gradient, and show how many values it reads. */
  hint() {
    const { open: question } = this;
    if (!question) return false;
    this.answers.set(question.node, false);
    this.hinted = true;
    this.say(`The gradient of ${this.#name(question.node)} ${this.#computed(question)}, and reads ${question.saved.length === 1 ? "1 value" : `${question.saved.length} values`} of the forward pass.`, "");
    return true;
  }

  /** Map from the slots of gradient nodes to their marks. */
  get #gradientNodes() {
    this.#parts ??= new Map(this.questions.flatMap(({ backward }) => backward.map((node) => [this.view.trace.slotOf[node], "veiled"])));
    return this.#parts;
  }

  /** Drawn edges from the forward pass to its gradient, which would reveal the answers. */
  get #veiled() {
    this.#veil ??= this.#cover();
    return this.#veil;
  }

  #cover() {
    const { trace, paths } = this.view;
    const { operands } = trace.nodes;
    /** @type {Set<string>} */ const across = new Set();
    for (const { backward } of this.questions) {
      for (const reader of backward) {
        for (const operand of operands[reader]) {
          const [from, to] = [trace.slotOf[trace.origin(operand)], trace.slotOf[reader]];
          if (from < 0 || to < 0 || this.#gradientNodes.has(from)) continue;
          for (const piece of paths.segments(from, to)) across.add(piece.join(":"));
        }
      }
    }
    return across;
  }

  marked() {
    const { open: question, view } = this;
    const slots = new Map(question ? this.#gradientNodes : []);
    if (!question) return undefined;
    const mark = (node, role) => slots.set(view.trace.slotOf[node], role);
    if (this.hinted) for (const node of question.backward) mark(node, "backward");
    mark(question.node, "asked");
    for (const node of this.clicked) mark(node, "saved");
    slots.delete(-1);
    return { slots, veiled: this.#veiled };
  }

  #question() {
    return `Which values of the forward pass does the gradient of ${this.#name(this.open.node)} read? n: no more.`;
  }

  saying() {
    return this.line("What gradients read is hidden.", this.open ? this.#question() : "");
  }

  /** Return the panel's content: the question, the score, and the gradients answered so far. */
  content() {
    const { open, answers, questions } = this;
    const answered = questions.filter((each) => answers.has(each.node) && each !== open).reverse();
    return this.sheet({
      title: open ? "predict what is saved" : "every gradient is settled",
      about: "A gradient is computed after the forward pass. The values of the forward pass that it reads are saved until then.",
      question: open && this.#question(),
      how: open && HOW,
      acts: open ? [keyButton("that is all", "n", () => this.judge(false)), keyButton("a hint", "m", () => this.hint()), keyButton("show the answer", ".", () => this.reveal())] : [],
      caption: "settled so far",
      rows: answered.map(({ node, saved }) => [String(node), this.#name(node), `${saved.length ? `saved: ${listed(saved.map((each) => this.#name(each)))}` : "nothing saved"}, ${answers.get(node) ? "right at once" : "not at once"}`]),
    });
  }
}
