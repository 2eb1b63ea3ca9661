// Exercise on buffers: they are hidden, and the reader predicts the buffer of each result.

import { keyButton, listed, Series } from "./exercise.js";
import { bytesText, grouped } from "../data/number_format.js";
import { html } from "../dom.js";

const HOW = "Click the value whose buffer it reuses, or the result itself if it needs a new buffer.";

/** The choice of a buffer that the plan has not used so far. */
const NEW = -1;

/** Questions about the results that have a buffer, in the order in which they are written. @extends {Series<number>} */
export class BufferExercise extends Series {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    const isPossible = view.trace.kernels.some(({ buffer }) => buffer !== null && buffer >= 0);
    super(view, isPossible ? view.timeline.stages.findIndex(({ kind }) => kind === "memory") : -1);
    /** @type {number[]} */ this.kernels = view.trace.kernels.flatMap(({ buffer }, kernel) => (buffer !== null && buffer >= 0 ? [kernel] : []));
  }

  /** @type {Map<string, number>} */ #namesakes = new Map();

  /** Kernels of the questions. */
  get questions() {
    return this.kernels;
  }

  /** Return the initial moment; the buffers before the open question are shown. */
  start() {
    return { ...super.start(), placed: this.open ?? this.view.trace.kernels.length };
  }

  /** Return a map from buffers to the kernels that last wrote to them before a kernel. @param {number} kernel @returns {Map<number, number>} */
  #occupants(kernel) {
    return new Map(this.kernels.filter((each) => each < kernel).map((each) => [this.#buffer(each), each]));
  }

  #buffer(kernel) {
    return this.view.trace.kernels[kernel].buffer;
  }

  /** Return the node of a kernel's result. @param {number} kernel */
  #result(kernel) {
    return this.view.trace.kernels[kernel].nodes.at(-1);
  }

  /** Return the name of a kernel's result, with its number if the name is not unique. @param {number} kernel */
  #name(kernel) {
    const { trace } = this.view;
    if (!this.#namesakes.size) for (const { nodes } of trace.kernels) this.#namesakes.set(trace.label(nodes.at(-1)), (this.#namesakes.get(trace.label(nodes.at(-1))) ?? 0) + 1);
    const name = trace.label(this.#result(kernel));
    return this.#namesakes.get(name) > 1 ? `${name} (${grouped(kernel + 1)})` : name;
  }

  /** Return the right answer for a kernel: its buffer, or NEW if no earlier kernel has this buffer. @param {number} kernel */
  #right(kernel) {
    return this.#occupants(kernel).has(this.#buffer(kernel)) ? this.#buffer(kernel) : NEW;
  }

  /** Return the kernel after which a value is dead, or the number of kernels. @param {number} kernel */
  #end(kernel) {
    const { freedBy, kernels } = this.view.trace;
    const freed = freedBy[this.#result(kernel)];
    return freed < 0 ? kernels.length : freed;
  }

  /** Return the kernels from `from` on that read a kernel's value. @param {number} kernel @param {number} from */
  #readers(kernel, from) {
    const { trace } = this.view;
    const [final, result] = [trace.resolver(this.view.now.position), this.#result(kernel)];
    const reads = ({ nodes }) => nodes.some((node) => trace.nodes.operands[node].some((operand) => trace.origin(final[operand]) === result));
    return trace.kernels.flatMap((each, index) => (index >= from && reads(each) ? [index] : []));
  }

  /** Explain why a kernel cannot use a buffer; return "" if it can. @param {number} buffer @param {number} kernel */
  #obstacle(buffer, kernel) {
    const { trace } = this.view;
    const occupant = this.#occupants(kernel).get(buffer);
    const [name, end] = [this.#name(occupant), this.#end(occupant)];
    const { bytes } = trace.kernels[kernel];
    const size = trace.recording.schedule.buffers[buffer];
    if (end > kernel) {
      const later = this.#readers(occupant, kernel + 1).map((each) => this.#name(each));
      return `buffer ${buffer} holds ${name}, which ${later.length ? `${listed(later.slice(0, 3))} will read` : "is still needed"}`;
    }
    if (end === kernel && this.#right(kernel) !== buffer) return `buffer ${buffer} holds ${name}, which is read while ${this.#name(kernel)} is written`;
    return size < bytes ? `buffer ${buffer} is free, but has only ${bytesText(size)} of the ${bytesText(bytes)}` : "";
  }

  /** Return the sentence about a kernel's buffer and the reason for it. @param {number} kernel */
  #solution(kernel) {
    const { trace } = this.view;
    const [name, buffer, right] = [this.#name(kernel), this.#buffer(kernel), this.#right(kernel)];
    const occupants = this.#occupants(kernel);
    if (right === NEW) {
      const obstacles = [...occupants.keys()].map((each) => this.#obstacle(each, kernel)).filter(Boolean);
      const more = obstacles.length > 3 ? ` The same applies to ${grouped(obstacles.length - 3)} more.` : "";
      const why = occupants.size === 0 ? "nothing has been written before it" : obstacles.slice(0, 3).join("; ") || "no free buffer fits";
      return `${name} needs a new buffer, buffer ${buffer}: ${why}.${more}`;
    }
    const before = occupants.get(buffer);
    const why = trace.kernels[kernel].in_place
      ? `it is written over ${this.#name(before)}, element by element, and nothing reads that value afterwards`
      : `${this.#name(before)} was there, and ${this.#lastReader(before)}`;
    return `${name} takes buffer ${buffer}: ${why}. ${this.#recorded(kernel)}`.trim();
  }

  #lastReader(kernel) {
    const end = this.#end(kernel);
    return this.#readers(kernel, end).includes(end) ? `${this.#name(end)} was the last to read it` : "nothing reads it afterwards";
  }

  /** Return the plan's recorded sentence about a result in a buffer. @param {number} kernel */
  #recorded(kernel) {
    const { trace, timeline } = this.view;
    const { first, last } = timeline.stages[this.stage];
    const about = trace.decisionsOf(this.#result(kernel)).filter((decision) => first <= decision && decision < last);
    const wanted = trace.kernels[kernel].in_place ? ["saved", "buffer", "arena"] : ["buffer", "arena"];
    const decision = wanted.flatMap((fact) => about.filter((each) => fact in trace.decisions[each].facts))[0];
    return decision === undefined ? "" : trace.plainSentence(decision);
  }

  /** Explain why a choice is wrong. @param {number} choice a buffer, or NEW @param {number} kernel */
  #against(choice, kernel) {
    const { trace } = this.view;
    const right = this.#right(kernel);
    const name = this.#name(kernel);
    if (choice === NEW) {
      const occupant = this.#occupants(kernel).get(right);
      return trace.kernels[kernel].in_place
        ? `${name} can be written over a value that it reads, and that nothing reads afterwards.`
        : `A free buffer is large enough for ${name}: ${this.#name(occupant)} is no longer read.`;
    }
    const obstacle = this.#obstacle(choice, kernel);
    if (obstacle) return `${obstacle[0].toUpperCase()}${obstacle.slice(1)}.`;
    const free = `Buffer ${choice} is free, too`;
    if (trace.kernels[kernel].in_place) return `${free}, but ${name} can overwrite a value that it reads, so this buffer stays free.`;
    if (this.#isPacked) return `${free}, but results are packed into one block here, and another offset leaves smaller gaps.`;
    const { buffers } = trace.recording.schedule;
    if (right !== NEW && buffers[right] < buffers[choice]) return `${free}, but another free buffer is smaller: the plan uses the smallest one that fits.`;
    return `${free}, but of buffers with equal sizes the plan uses the first, or the one that earlier kernels in the chain of ${name} released.`;
  }

  /** Whether results are packed into one block of memory, in which buffers may overlap. */
  get #isPacked() {
    const { trace, timeline } = this.view;
    const { first, last } = timeline.stages[this.stage];
    return trace.decisions.slice(first, last).some(({ facts }) => "arena" in facts);
  }

  /** Handle an answer: a value whose buffer is reused, or the result itself for a new buffer. @param {string} key "n7", "b2" or "" */
  take(key) {
    const { view, open: kernel } = this;
    if (!key || kernel === undefined) return;
    view.focus.set(key, true);
    if (key[0] === "b") return this.say(this.boxed(key), "");
    const { trace, scene } = view;
    const { node, state } = scene.slots.get(Number(key.slice(1)));
    const [name, owner] = [trace.label(node), trace.kernelOf[node]];
    if (state === "was" || state === "gone") return this.say(`${name} was removed from the graph, so it has no buffer.`, "");
    if (owner < 0) return this.say(`${name} exists before the run, so its memory is not reused.`, "");
    if (owner === kernel) return this.choose(NEW);
    if (owner > kernel) return this.say(`${name} is written later, as number ${grouped(owner + 1)}.`, "");
    if (this.#result(owner) !== node) return this.say(`${name} is computed inside a kernel and never written, so it has no buffer.`, "");
    if (this.#buffer(owner) < 0) return this.say(`${name} ${trace.kernels[owner].bytes ? "has its own memory, which is not reused" : "is a view, so it has no buffer"}.`, "");
    this.choose(this.#buffer(owner));
  }

  /** Answer the open question with a buffer. @param {number} choice a buffer, or NEW */
  choose(choice) {
    const { open: kernel } = this;
    if (kernel === undefined) return;
    const isRight = choice === this.#right(kernel);
    this.note(kernel, isRight);
    if (isRight) this.ask(this.at + 1, `Right. ${this.#solution(kernel)}`, "applied");
    else this.say(`No. ${this.#against(choice, kernel)}`, "declined");
  }

  /** Handle "no", a new buffer, or "yes", a reused buffer, and then ask which one. @param {boolean} isYes */
  judge(isYes) {
    if (isYes) this.say("Which one? Click the value whose buffer it reuses.", "");
    else this.choose(NEW);
    return true;
  }

  /** Show the buffer of the open question's result. */
  reveal() {
    const { open: kernel } = this;
    if (kernel === undefined) return;
    this.note(kernel, false);
    this.ask(this.at + 1, `Shown: ${this.#solution(kernel)}`);
  }

  /** Mark the values whose buffers are free. */
  hint() {
    const { open: kernel } = this;
    if (kernel === undefined) return false;
    this.answers.set(kernel, false);
    this.hinted = true;
    this.view.show();
    return true;
  }

  marked() {
    const { open: kernel, view } = this;
    if (kernel === undefined) return undefined;
    const { slotOf } = view.trace;
    const slots = new Map();
    for (const occupant of this.hinted ? this.#occupants(kernel).values() : []) {
      if (this.#end(occupant) < kernel) slots.set(slotOf[this.#result(occupant)], "free");
    }
    slots.set(slotOf[this.#result(kernel)], "asked");
    slots.delete(-1);
    return { slots };
  }

  #question() {
    const { open: kernel, view } = this;
    const { nodes, bytes } = view.trace.kernels[kernel];
    const name = view.trace.label(this.#result(kernel));
    const subject = nodes.length > 1 ? `the kernel that ends with ${name}` : name;
    return `Number ${grouped(kernel + 1)}, ${subject}, writes ${bytesText(bytes)}: to which buffer? n: a new one.`;
  }

  saying() {
    return this.line("The buffers are hidden.", this.open === undefined ? "" : this.#question());
  }

  /** Return the panel's content: the question, the existing buffers, the score, and the results answered so far. */
  content() {
    const { open, answers } = this;
    const isOpen = open !== undefined;
    const answered = this.questions.filter((kernel) => answers.has(kernel) && kernel !== open).reverse();
    const parts = this.sheet({
      title: isOpen ? "predict the buffers" : "every result has a buffer",
      about: "A result is written to memory that nothing else needs: over an operand that nothing else will read, to the smallest free buffer that fits, or to a new buffer.",
      question: isOpen && this.#question(),
      how: isOpen && HOW,
      acts: isOpen ? [keyButton("a new buffer", "n", () => this.choose(NEW)), keyButton("mark what is free", "m", () => this.hint()), keyButton("show the answer", ".", () => this.reveal())] : [],
      caption: "settled so far",
      rows: answered.map((kernel) => [String(kernel), this.#name(kernel), `buffer ${this.#buffer(kernel)}, ${answers.get(kernel) ? "right at once" : "not at once"}`]),
    });
    if (isOpen) parts.splice(parts.findIndex(({ className }) => className === "ex-note"), 0, this.#places(open));
    return parts;
  }

  /** Return a table of the existing buffers, each with the value written to it last. @param {number} kernel */
  #places(kernel) {
    const { buffers } = this.view.trace.recording.schedule;
    const table = html("dl", { class: "ex-facts ex-places", "aria-label": "buffers so far" });
    for (const [buffer, occupant] of [...this.#occupants(kernel)].sort(([a], [b]) => a - b)) {
      const choice = html("button", { class: "ex-link", type: "button", click: () => this.choose(buffer) }, `buffer ${buffer}`);
      table.append(html("dt", {}, choice), html("dd", {}, `${bytesText(buffers[buffer])} · written last: ${this.#name(occupant)}`));
    }
    return table;
  }
}
