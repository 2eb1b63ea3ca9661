// Exercise on the order: it is hidden, and the reader predicts which kernel is evaluated next.

import { Exercise, keyButton, listed, stand } from "./exercise.js";
import { kernelSaying } from "../controls/moment_sentence.js";
import { counted, grouped } from "../data/number_format.js";

/** Planner's code for the reason of a pick → the rule that chooses among the ready kernels. */
const RULES = {
  earliest: "of the ready kernels, the one that was recorded first comes next",
  depth_first: "of the ready kernels, the one that is first in depth-first order comes next",
  own_order: "of the ready kernels, the one that is first in the order of this plan's own pass comes next",
  constant: "constant kernels come first, because they are computed once, before all runs",
};

const QUESTION = "Which kernel is evaluated next? Click one of its nodes, or go to it by the arrows and press Enter.";

/** Shared empty list of ready nodes; one object, so that moments with equal hidden parts compare as equal. @type {number[]} */
const NONE = [];

/** Questions about the order of one view's kernels. */
export class OrderExercise extends Exercise {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    super(view, view.timeline.stages.findIndex(({ kind, kernels }) => kind === "order" && kernels.length > 0));
  }

  /** Return the moment before the first kernel is picked. */
  start() {
    return this.framed(this.view.timeline.unpicked(this.stage));
  }

  /** Number of kernels; a kernel's index is its position in the order. */
  get count() {
    return this.view.trace.kernels.length;
  }

  /** Kernel of the open question, −1 when all are picked. */
  get next() {
    const next = this.view.now.kernel + 1;
    return next < this.count ? next : -1;
  }

  /** Return a moment with the order hidden. @param {import("../data/timeline.js").Moment} moment */
  framed(moment) {
    this.answer = moment.kernel === this.view.now.kernel + 1 ? { text: `Shown: ${this.#solution(moment.kernel)}`, verdict: "" } : null;
    // Answers that were stepped over count as shown, not predicted.
    for (let kernel = moment.kernel; kernel >= 0 && !this.answers.has(kernel); kernel--) this.answers.set(kernel, false);
    this.hinted = false;
    return { ...moment, hint: NONE };
  }

  /** Mark the kernels that are ready; the open question no longer counts for the score. */
  hint() {
    const { view, next } = this;
    if (next < 0) return false;
    this.hinted = true;
    this.answers.set(next, false);
    stand(view, { ...view.now, hint: view.trace.kernels[next].ready_candidates });
    return true;
  }

  /** Handle an answer: an item that was clicked on the canvas. @param {string} key "n7", "b2" or "" */
  take(key) {
    const { view, next } = this;
    if (!key || next < 0) return;
    view.focus.set(key, true);
    const kernels = key[0] === "n" ? this.#ofNode(Number(key.slice(1))) : this.#ofBox(Number(key.slice(1)));
    if (typeof kernels === "string") return this.say(kernels, "");
    const isRight = kernels === next;
    this.note(next, isRight);
    const why = isRight ? "" : this.reason(kernels).replace(/^the /, "The ");
    if (isRight) view.go(view.now.step + 1);
    if (isRight) this.say(`Right. ${this.#solution(next)}`, "applied");
    else this.say(`No. ${why}`, "declined");
  }

  #solution(kernel) {
    const { trace } = this.view;
    const { fragments } = kernelSaying(trace, { kernel, phase: "order" }, (text) => ({ text, node: -1 }));
    return fragments.map(({ text }) => text).join("");
  }

  /** Return the kernel of a slot, or a sentence on why it has none. @returns {number | string} */
  #ofNode(slot) {
    const { trace, scene } = this.view;
    const { node, state } = scene.slots.get(slot);
    const kernel = trace.kernelOf[node];
    if (kernel >= 0) return kernel;
    const name = trace.label(node);
    if (state === "was" || state === "gone") return `${name} was removed from the graph: nothing computes it.`;
    return trace.nodes.kind[node] === "operation" ? `${name} needs no kernel.` : `${name} exists before the run: nothing computes it.`;
  }

  /** Return the kernel inside a closed box, or a sentence on why there is not exactly one. @returns {number | string} */
  #ofBox(box) {
    const { trace, scene, placement } = this.view;
    const name = trace.layout.boxes[box].text[0];
    const hidden = new Set();
    for (const [slot, { node }] of scene.slots) if (placement.hiddenIn[slot] === box && trace.kernelOf[node] >= 0) hidden.add(trace.kernelOf[node]);
    if (!hidden.size) return placement.open.has(box) ? `${name} is open: choose a node in it.` : `${name} holds nothing that runs.`;
    if (hidden.size === 1) return [...hidden][0];
    return `${name} holds ${counted(hidden.size, "kernel")}: open it by a double click, or by +, and choose a node in it.`;
  }

  /** Explain why a kernel is not the next one. @param {number} kernel */
  reason(kernel) {
    const { trace, now } = this.view;
    const name = this.#name(kernel);
    if (kernel <= now.kernel) return `${name} has run already, as number ${grouped(kernel + 1)}.`;
    const missing = this.missing(kernel);
    const counts = new Map();
    for (const text of missing.map((node) => trace.label(node))) counts.set(text, (counts.get(text) ?? 0) + 1);
    const read = [...counts].map(([text, count]) => (count > 1 ? `${text} ×${grouped(count)}` : text));
    if (missing.length) return `${name} reads ${listed(read)}, which ${missing.length === 1 ? "has" : "have"} not run.`;
    const { ready_candidates: ready, ready_count: count, waiting, pick_reason: code } = trace.kernels[this.next];
    const result = trace.kernels[kernel].nodes.at(-1);
    const isWaiting = waiting.includes(result) || (ready.length === count && !ready.includes(result));
    if (isWaiting) return `${name} waits: by the estimates a kernel that it reads is still running.`;
    return `${name} is ready, too, but ${RULES[code] ?? "another one comes first"}.`;
  }

  /** Return the operands of a kernel that no kernel has computed so far. @param {number} kernel @returns {number[]} */
  missing(kernel) {
    const { trace, now } = this.view;
    const final = trace.resolver(now.position);
    const missing = new Set();
    for (const node of trace.kernels[kernel].nodes) {
      for (const operand of trace.nodes.operands[node]) {
        const origin = trace.origin(final[operand]);
        const producer = trace.kernelOf[origin];
        if (producer > now.kernel && producer !== kernel) missing.add(origin);
      }
    }
    return [...missing];
  }

  #name(kernel) {
    const { nodes } = this.view.trace.kernels[kernel];
    return nodes.length > 1 ? `the kernel ${listed(nodes.map((node) => this.view.trace.label(node)))}` : this.view.trace.label(nodes[0]);
  }

  /** Return the line above the canvas, shown instead of a moment's sentence and read aloud by screen readers. */
  saying() {
    const { next } = this;
    const all = grouped(this.count);
    const place = next < 0 ? `all ${all} picked` : `predict pick ${grouped(next + 1)} of ${all}`;
    const hint = this.hinted ? ["All operands of the kernels marked “ready” have been computed."] : [];
    const words = [this.answer?.text ?? "The order is hidden.", ...hint, next < 0 ? this.score() : this.answer ? "Which kernel is next?" : QUESTION];
    return { place, verdict: "", fragments: [{ text: words.join(" "), node: -1 }] };
  }

  /** Return the panel's content: the task, the score, and the kernels picked so far. */
  content() {
    const { next, view } = this;
    const picked = Array.from({ length: view.now.kernel + 1 }, (_, place) => view.now.kernel - place);
    return this.sheet({
      title: next < 0 ? "every kernel is picked" : "predict the order",
      about: "A kernel is ready when all its operands have been computed. The order picks one of the ready kernels.",
      question: next < 0 ? "" : QUESTION,
      acts: next < 0 ? [] : [keyButton("mark what is ready", "m", () => this.hint()), keyButton("show the answer", ".", () => view.step(1))],
      caption: "picked so far",
      rows: picked.map((kernel) => [String(kernel), this.#name(kernel), this.answers.get(kernel) ? "right at once" : "not at once"]),
    });
  }
}
