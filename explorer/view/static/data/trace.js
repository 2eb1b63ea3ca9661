// Recording with the lookups that views need.

import { RowIndex } from "./row_index.js";
import { Substitutions } from "./substitutions.js";
import { unpack } from "./unpack.js";

/**
 * @typedef {{ends: number[], kernels: number[][], merges: number[], outlined: number[], opens: [number, number, number][], rows: [number, number, string][]}} Replay
 *   the rules of a story, applied: see view/payload/view_payload.py
 * @typedef {{text: string, node: number, isCode?: boolean, isTitle?: boolean}} Fragment a piece of a sentence; node −1 is text, isTitle: the user's
 */

/** A recording and its layout, indexed. Node ids, decision numbers and positions are those of record/rows.py. */
export class Trace {
  /** @param {{recording: any, layout: any, replay: any, heat: any, options: any}} payload */
  constructor(payload) {
    /** @type {import("../types").RecordingTables} */ this.recording = unpack(payload.recording);
    /** @type {import("../types").LayoutTables & {isTurned?: boolean}} isTurned: by a reader */ this.layout = unpack(payload.layout);
    /** @type {import("../types").ReplayTables} */ this.replay = unpack(payload.replay);
    /** @type {import("./totals.js").Metric[]} */ this.metrics = unpack(payload.heat);
    this.options = payload.options;
    this.nodes = this.recording.nodes;
    this.decisions = this.recording.decisions;
    this.count = this.nodes.label.length;
    this.label = this.label.bind(this);
    this.namedLabel = this.namedLabel.bind(this);
    for (const { direction, name, node } of this.recording.interface ?? []) {
      if (direction === "output") this.#outputNames.set(node, [...(this.#outputNames.get(node) ?? []), name]);
    }
    this.roots = new Set(this.recording.bodies.flatMap((body) => body.outputs));
    this.#indexSlots();
    this.#indexKernels();
    this.#indexDecisions();
    for (const [box, position, text] of this.replay.rows) this.#rows.set(box, [...(this.#rows.get(box) ?? []), [position, text]]);
    this.#rowsAt = new RowIndex(this.decisions.length + 1, (enter) => this.replay.rows.forEach(([box, position]) => enter(position, box)));
    this.substitutions = new Substitutions(this.recording.substitutions, this.count);
    /** node → the nodes that read it, as recorded */
    this.readers = new RowIndex(this.count, (enter) => this.nodes.operands.forEach((operands, node) => operands.forEach((operand) => enter(operand, node))));
  }

  #decisionsOf = new Map();
  /** @type {RowIndex[]} rows of declined edges of each decision: those with places, and the others */ #declined = [];
  /** @type {Map<number, string[]>} */ #outputNames = new Map();
  /** @type {Map<number, [number, string][]>} */ #rows = new Map();
  /** @type {RowIndex | undefined} */ #rowsAt = undefined;
  /** @type {Int32Array | undefined} */ #changes = undefined;

  #indexSlots() {
    /** slot → the box that it stands in */
    this.boxOf = new Int32Array(this.layout.slots.length).fill(-1);
    this.layout.boxes.forEach((box, index) => {
      for (const item of box.items) if (item.slot !== undefined) this.boxOf[item.slot] = index;
    });
    this.slotOf = new Int32Array(this.count).fill(-1);
    this.placeOf = new Int32Array(this.count).fill(-1);
    this.layout.slots.forEach((slot, index) => {
      slot.nodes.forEach((node, place) => {
        this.slotOf[node] = index;
        this.placeOf[node] = place;
      });
    });
  }

  #indexKernels() {
    this.kernels = this.recording.schedule?.kernels ?? [];
    this.kernelOf = new Int32Array(this.count).fill(-1);
    this.freedBy = new Int32Array(this.count).fill(-1);
    this.kernels.forEach((kernel, index) => {
      for (const node of kernel.nodes) this.kernelOf[node] = index;
      for (const node of kernel.frees) this.freedBy[node] = index;
    });
    this.steps = this.recording.run?.steps ?? [];
    this.stepOf = new Map(this.steps.map((step, index) => [step.kernel, index]));
    this.slowest = this.steps.reduce((most, step) => Math.max(most, step.micros), 1e-9);
    this.values = { ...this.recording.leaf_values, ...this.recording.run?.values };
  }

  #indexDecisions() {
    this.decisions.forEach((decision, index) => {
      for (const node of new Set([...decision.subjects, ...decision.produced])) {
        if (!this.#decisionsOf.has(node)) this.#decisionsOf.set(node, []);
        this.#decisionsOf.get(node).push(index);
      }
    });
    const { declined_edges: edges, declined_readers: readers } = this.recording;
    const byDecision = (rows) => new RowIndex(this.decisions.length, (enter) => rows.forEach(([decision], row) => enter(decision, row)));
    this.#declined = [byDecision(edges), byDecision(readers)];
    const { born, gone } = this.nodes;
    /** decision → the nodes that it produced or took away */
    this.changedBy = new RowIndex(this.decisions.length, (enter) => {
      born.forEach(enter);
      gone.forEach(enter);
    });
  }

  /** The values that are written and read again because of the declined ones of some decisions: [operand, reader]. @param {number} first @param {number} last @returns {[number, number][]} */
  declinedEdges(first, last) {
    const { declined_edges: edges, declined_readers: readers } = this.recording;
    const [placed, plain] = [edges, readers].map((rows, table) => [...this.#declined[table].between(first, last)].map((row) => rows[row]));
    const final = placed.length ? this.resolver(last) : [];
    const ends = placed.map(([decision, place]) => {
      const reader = this.decisions[decision].subjects[place >> 2];
      return /** @type {[number, number]} */ ([final[this.nodes.operands[reader][place & 3]], reader]);
    });
    return [...ends, ...plain.map(([, operand, reader]) => /** @type {[number, number]} */ ([operand, reader]))];
  }

  /** The decisions whose subject or product is a node, in order. */
  decisionsOf(node) {
    return this.#decisionsOf.get(node) ?? [];
  }

  /** The name of a node in a sentence. */
  label(node) {
    return this.nodes.label[node];
  }

  /** The name of a node behind the variable that its value was given to, "h = tanh". */
  namedLabel(node) {
    const variable = this.variable(node);
    return variable ? `${variable} = ${this.label(node)}` : this.label(node);
  }

  /** The variable of the user's program that a node's value was given to, or "". @param {number} node */
  variable(node) {
    return this.recording.variables?.[node] ?? "";
  }

  /** The names that a model's file has for a node as an output. @param {number} node @returns {string[]} */
  outputNames(node) {
    return this.#outputNames.get(node) ?? [];
  }

  /** How many recorded values were assigned to a variable of this name. @param {string} name */
  valuesOf(name) {
    return Object.entries(this.recording.variables ?? {}).filter(([node, each]) => each === name && this.nodes.born[node] < 0).length;
  }

  /** "32×64 float32", "batch=32×64 float32", "scalar float32", "(2×2 float32, 3 int64)". @param {number} row a row of types */
  typeText(row) {
    return this.shapeText(row) + this.recording.types[row].text;
  }

  /** "32×64", "batch=32×64", and "" of a type without one shape. @param {number} row a row of types */
  shapeText(row) {
    const { shape, named } = this.recording.types[row];
    return named ?? shape.join("×");
  }

  /** The formula of a node, "x + b", or "" where its operation says it. @param {number} node */
  formula(node) {
    const { slots, texts } = this.layout;
    const slot = slots[this.slotOf[node]];
    return slot ? texts[slot.text[this.placeOf[node]]][4] : "";
  }

  /** "In[3] line 2", or "" where unknown. */
  sourceText(node) {
    const source = this.recording.sources[this.nodes.source[node]];
    return source?.place ?? "";
  }

  /** Where a node stands: "layer1 / conv2 / add", or where there is no scope "In[3] line 2 · add". */
  whereText(node) {
    const [scopes, place, label] = [this.scopePath(node), this.sourceText(node), this.namedLabel(node)];
    return scopes.length ? [...scopes, ...(scopes.at(-1) === label ? [] : [label])].join(" / ") : [place, label].filter(Boolean).join(" · ");
  }

  /** Where a decision's first subject stands, "" of a decision about the whole plan. @param {number} index */
  decisionPlace(index) {
    const { subjects, produced } = this.decisions[index];
    const [node = -1] = [...subjects, ...produced];
    return node < 0 ? "" : this.whereText(node);
  }

  /** The scopes around a node, from the outside in. */
  scopePath(node) {
    const path = [];
    const scopes = this.recording.scopes;
    for (let row = this.nodes.scope[node]; row >= 0 && scopes[row].kind !== "top"; row = scopes[row].parent) {
      path.unshift(scopes[row].name);
    }
    return path;
  }

  /** The sentence of a decision. @param {number} index @returns {Fragment[]} */
  sentence(index) {
    const { reason, facts } = this.decisions[index];
    const marks = this.recording.marks[index];
    return this.recording.reasons[reason].sentence.flatMap((part) => {
      if (typeof part === "string") return [{ text: part, node: -1, isCode: false }];
      if (!Array.isArray(part)) return [{ text: part.code, node: -1, isCode: true }];
      const [label, style] = part;
      return this.fact(facts[label], style === "code", marks);
    });
  }

  /** A fact: a text, a node, or several of both. @param {string | number | (string | number)[]} value @returns {Fragment[]} */
  fact(value, isCode = false, marks = {}) {
    if (Array.isArray(value)) return value.flatMap((part) => this.fact(part, isCode, marks));
    return [typeof value === "number" ? { text: this.label(value) + (marks[value] ?? ""), node: value, isCode } : { text: value, node: -1, isCode }];
  }

  /** The sentence of a decision as plain text. @param {number} index */
  plainSentence(index) {
    return this.sentence(index).map(({ text }) => text).join("");
  }

  /** Node → the node that replaces it after `position` decisions; the next call changes it. @returns {Int32Array} */
  resolver(position) {
    return this.substitutions.at(position);
  }

  /** How many decisions have changed the graph at a position: where two have as many, its nodes and their operands are the same, and so are its kernels. @param {number} position */
  changesUntil(position) {
    this.#changes ??= this.#countChanges();
    return this.#changes[position];
  }

  #countChanges() {
    const { decisions, recording } = this;
    const changes = new Int32Array(decisions.length + 1);
    for (const decision of this.changedBy.keys()) changes[decision + 1] = 1;
    for (const [decision] of recording.substitutions) changes[decision + 1] = 1;
    for (const { kind, decision } of recording.groups) if (kind === "kernel") changes[decision + 1] = 1;
    decisions.forEach((_, decision) => (changes[decision + 1] += changes[decision]));
    return changes;
  }

  /** Follow ports to the node that computes their value. */
  origin(node) {
    const { kind, operands } = this.nodes;
    while (kind[node] === "item" && operands[node].length) node = operands[node][0];
    return node;
  }

  /** The first node that holds a NaN, −1 where there is none. @returns {number} */
  get firstNaN() {
    return this.recording.first_nan;
  }

  /** Whether a box stands for one operator of a file. @param {number} index */
  isOperator(index) {
    const { type, items } = this.layout.boxes[index];
    return type !== "" && items.every((item) => item.slot !== undefined);
  }

  /** Whether a node exists when `position` decisions are taken. */
  exists(node, position) {
    const { born, gone } = this.nodes;
    return born[node] < position && (gone[node] < 0 || gone[node] >= position);
  }

  /**
   * The node in a slot after `position` decisions: [node, whether it is a ghost]; −1 if it is empty.
   * Ghosts are those of one stage, whose first decision is `first`.
   * @returns {[number, boolean]}
   */
  standing(slot, position, first) {
    let ghost = -1;
    for (const node of this.layout.slots[slot].nodes) {
      if (this.exists(node, position)) return [node, false];
      if (this.nodes.gone[node] >= first && this.nodes.gone[node] < position) ghost = node;
    }
    return [ghost, true];
  }

  /** The text of a closed box at a position, "" while it holds nodes of its own. @param {number} box @param {number} position */
  rowText(box, position) {
    return this.#rows.get(box)?.filter(([first]) => first <= position).at(-1)?.[1] ?? "";
  }

  /** The closed boxes that say something else from a position on. @param {number} position */
  rowsAt(position) {
    return this.#rowsAt.of(position);
  }

  /** Bytes planned to be live while a kernel runs. */
  live(kernel) {
    const step = this.stepOf.get(kernel);
    return step === undefined ? this.kernels[kernel].live : this.steps[step].live;
  }
}
