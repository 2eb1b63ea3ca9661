// Recording with the lookup tables that views need.

import { microsText, onceText } from "./number_format.js";
import { OperandNames } from "./operand_names.js";
import { RowIndex } from "./row_index.js";
import { Substitutions } from "./substitutions.js";
import { unpack } from "./unpack.js";

/**
 * @typedef {{ends: number[], kernels: number[][], merges: number[], outlined: number[], opens: [number, number, number][], rows: [number, number, string][]}} Replay
 *   precomputed tables for replaying the decisions: see view/payload/view_payload.py
 * @typedef {{text: string, node: number, isCode?: boolean, isTitle?: boolean}} Fragment a piece of a sentence; node −1: plain text; isTitle: written by the user
 */

/** Recording and layout with indices. Node ids, decision numbers and positions are as in record/rows.py. */
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
  /** @type {RowIndex[]} rows of declined edges of each decision: the ones with operand positions, and the others */ #declined = [];
  /** @type {Map<number, string[]>} */ #outputNames = new Map();
  /** @type {Map<number, [number, string][]>} */ #rows = new Map();
  /** @type {RowIndex | undefined} */ #rowsAt = undefined;
  /** @type {Int32Array | undefined} */ #changes = undefined;
  /** @type {OperandNames | undefined} */ #operands = undefined;

  #indexSlots() {
    /** slot → the box that contains it */
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
      for (const node of kernel.nodes) if (this.kernelOf[node] < 0) this.kernelOf[node] = index;
      for (const node of kernel.frees) this.freedBy[node] = index;
    });
    // A node that several kernels compute belongs to the first kernel that writes it, else to the first of them.
    for (let index = this.kernels.length - 1; index >= 0; index--) this.kernelOf[this.kernels[index].nodes.at(-1)] = index;
    /** node → kernel with lines of code that compute it, also for the nodes in the steps of a scan @type {Map<number, number>} */
    this.codeOf = new Map(Object.entries(this.recording.codes ?? {}).flatMap(([kernel, { nodes }]) => nodes.map(([, node]) => [node, Number(kernel)])));
    /** node → all kernels that compute it */
    this.kernelsOf = new RowIndex(this.count, (enter) => this.kernels.forEach(({ nodes }, index) => nodes.forEach((node) => enter(node, index))));
    this.steps = this.recording.run?.steps ?? [];
    this.stepOf = new Map(this.steps.map((step, index) => [step.kernel, index]));
    const isWarm = this.recording.run?.warm;
    const once = new Set(this.recording.once);
    /** kernels that run only once, before the first run */ this.once = once;
    /** Whether the time of a kernel, measured or estimated, is not part of every run. @type {(kernel: number) => boolean} */
    this.isOnce = (kernel) => once.has(kernel) && !(this.steps.length && isWarm);
    this.slowest = this.steps.reduce((most, step) => (this.isOnce(step.kernel) ? most : Math.max(most, step.micros)), 1e-9);
    this.values = { ...this.recording.leaf_values, ...this.recording.run?.values };
    /** @type {[kernel: number, micros: number][]} the measured times in every run of the kernels that ran, or else the estimated times */
    const clocked = this.steps.length ? this.steps.map((step) => [step.kernel, step.micros]) : this.kernels.map(({ estimate }, kernel) => [kernel, estimate ?? 0]);
    this.clocked = clocked.filter(([kernel]) => !this.isOnce(kernel));
    /** node → its µs in every run */ this.timeOf = this.#times(this.clocked);
    /** node → its µs before the first run */ this.onceOf = this.#times(clocked.filter(([kernel]) => this.isOnce(kernel)));
  }

  /** Return the µs of each node. A kernel's time is divided among its nodes in proportion to their flops, or assigned to its result if they have none. */
  #times(/** @type {[kernel: number, micros: number][]} */ clocked) {
    const time = new Float64Array(this.count);
    const { flops } = this.nodes;
    for (const [kernel, micros] of clocked) {
      const { nodes } = this.kernels[kernel];
      const work = nodes.reduce((sum, node) => sum + flops[node], 0);
      if (work) for (const node of nodes) time[node] += (micros * flops[node]) / work;
      else time[nodes[nodes.length - 1]] += micros;
    }
    return time;
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
    /** decision → the nodes that it produced or removed */
    this.changedBy = new RowIndex(this.decisions.length, (enter) => {
      born.forEach(enter);
      gone.forEach(enter);
    });
  }

  /** Return the values, as [operand, reader], that are written and read again because decisions in a range were declined. @param {number} first @param {number} last @returns {[number, number][]} */
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

  /** Return the decisions whose subject or product is a node, in order. */
  decisionsOf(node) {
    return this.#decisionsOf.get(node) ?? [];
  }

  /** Return the name of a node in a sentence. */
  label(node) {
    return this.nodes.label[node];
  }

  /** Return the title of the operator of a file that a node represents, or its name, preceded by the variable that its value was assigned to: "h = tanh". */
  namedLabel(node) {
    const operator = this.#text(node)[5];
    if (operator) return operator;
    const variable = this.variable(node);
    return variable ? `${variable} = ${this.label(node)}` : this.label(node);
  }

  /** Return the variable of the user's program that a node's value was assigned to, or "". @param {number} node */
  variable(node) {
    return this.recording.variables?.[node] ?? "";
  }

  /** Names of values and operands in the model's file. */
  get operands() {
    return (this.#operands ??= new OperandNames(this));
  }

  /** Return the name of a node's value: in the model's file, else its variable, else the node's name. @param {number} node @param {number} position */
  valueName(node, position) {
    return this.operands.names(node, position)[0] || this.variable(node) || this.label(node);
  }

  /** Return a node's names as an output in a model's file. @param {number} node @returns {string[]} */
  outputNames(node) {
    return this.#outputNames.get(node) ?? [];
  }

  /** Count the recorded values that were assigned to a variable of this name. @param {string} name */
  valuesOf(name) {
    return Object.entries(this.recording.variables ?? {}).filter(([node, each]) => each === name && this.nodes.born[node] < 0).length;
  }

  /** Format a type: "32×64 float32", "batch=32×64 float32", "scalar float32", "(2×2 float32, 3 int64)". @param {number} row a row of types */
  typeText(row) {
    return this.shapeText(row) + this.recording.types[row].text;
  }

  /** Return the texts of a node in the graph (labels.Text), [] if it is not in the graph. @param {number} node */
  #text(node) {
    const { slots, texts } = this.layout;
    const slot = slots[this.slotOf[node]];
    return slot ? texts[slot.text[this.placeOf[node]]] : [];
  }

  /** Return the type of a node as the graph shows it, "32×64 f32". @param {number} node */
  shortType(node) {
    return this.#text(this.origin(node))[1] ?? this.typeText(this.nodes.type[node]);
  }

  /** Format the shape of a type, "32×64" or "batch=32×64", "" if it has no single shape. @param {number} row a row of types */
  shapeText(row) {
    const { shape, named } = this.recording.types[row];
    return named ?? shape.join("×");
  }

  /** Return the formula of a node, "x + b", or "" if the name of its operation suffices. @param {number} node */
  formula(node) {
    return this.#text(node)[4] ?? "";
  }

  /** Return the source location of a node, "In[3] line 2", or "" if it is unknown. */
  sourceText(node) {
    const source = this.recording.sources[this.nodes.source[node]];
    return source?.place ?? "";
  }

  /** Return the location of a node: "layer1 / conv2 / add" or, without a scope, "In[3] line 2 · add". */
  whereText(node) {
    const [scopes, place, label] = [this.scopePath(node), this.sourceText(node), this.namedLabel(node)];
    return scopes.length ? [...scopes, ...(scopes.at(-1) === label ? [] : [label])].join(" / ") : [place, label].filter(Boolean).join(" · ");
  }

  /** Return the location of a decision's first subject, "" for a decision about the whole plan. @param {number} index */
  decisionPlace(index) {
    const { subjects, produced } = this.decisions[index];
    const [node = -1] = [...subjects, ...produced];
    return node < 0 ? "" : this.whereText(node);
  }

  /** Return the scopes around a node, outermost first. */
  scopePath(node) {
    return this.pathOf(this.nodes.scope[node]);
  }

  /** Return the nodes inside a box, of every step. @param {number} box @returns {number[]} */
  nodesIn(box) {
    const { boxes, slots } = this.layout;
    const inside = [box];
    const nodes = [];
    for (const index of inside) {
      for (const item of boxes[index].items) {
        if (item.box !== undefined) inside.push(item.box);
        else nodes.push(...slots[item.slot].nodes);
      }
    }
    return nodes;
  }

  /** Return the names of a scope and the scopes around it, outermost first. @param {number} scope @returns {string[]} */
  pathOf(scope) {
    const path = [];
    const scopes = this.recording.scopes;
    for (let row = scope; row >= 0 && scopes[row].kind !== "top"; row = scopes[row].parent) {
      path.unshift(scopes[row].name);
    }
    return path;
  }

  /** Return the sentence of a decision. @param {number} index @returns {Fragment[]} */
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

  /** Return the fragments of a fact: a string, a node or several of both. @param {string | number | (string | number)[]} value @returns {Fragment[]} */
  fact(value, isCode = false, marks = {}) {
    if (Array.isArray(value)) return value.flatMap((part) => this.fact(part, isCode, marks));
    return [typeof value === "number" ? { text: this.label(value) + (marks[value] ?? ""), node: value, isCode } : { text: value, node: -1, isCode }];
  }

  /** Return the sentence of a decision as plain text. @param {number} index */
  plainSentence(index) {
    const marks = this.recording.marks[index] ?? {};
    return this.#sentence(index, (node) => this.label(node) + (marks[node] ?? ""));
  }

  /** Return the sentence of a decision with "…" in place of its nodes. @param {number} index */
  generalSentence(index) {
    return this.#sentence(index, () => "…");
  }

  /** Return the sentence of a decision as plain text. @param {number} index @param {(node: number) => string} named */
  #sentence(index, named) {
    const { reason, facts } = this.decisions[index];
    /** @param {string | number | (string | number)[]} value @returns {string} */
    const text = (value) => (Array.isArray(value) ? value.map(text).join("") : typeof value === "number" ? named(value) : value);
    const parts = this.recording.reasons[reason].sentence;
    return parts.map((part) => (typeof part === "string" ? part : Array.isArray(part) ? text(facts[part[0]]) : part.code)).join("");
  }

  /** Return an array from nodes to their replacements after `position` decisions; the next call overwrites it. @returns {Int32Array} */
  resolver(position) {
    return this.substitutions.at(position);
  }

  /** Count the decisions that have changed the graph at a position. Positions with equal counts have the same nodes, operands and kernels. @param {number} position */
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

  /** First node whose value contains a NaN, −1 if there is none. @returns {number} */
  get firstNaN() {
    return this.recording.first_nan;
  }

  /** Return the family of a node's operation, "" if its declaration states none. @param {number} node @returns {string} */
  familyOf(node) {
    // Recordings saved by older versions have no families.
    const { families = {}, operations } = this.recording;
    return families[operations[this.nodes.operation[node]]] ?? "";
  }

  /** Return the type of the operator of a file that computes a node, "" if there is none or its type is an expression. @param {number} node */
  operatorType(node) {
    const { scopes } = this.recording;
    let scope = this.nodes.scope[node];
    while (scope >= 0 && !scopes[scope].type) scope = scopes[scope].parent;
    const type = scope < 0 || scopes[scope].kind !== "file" ? "" : scopes[scope].type;
    return type.includes("(") ? "" : type;
  }

  /** Whether a box represents one operator of a file. @param {number} index */
  isOperator(index) {
    const { type, items } = this.layout.boxes[index];
    return type !== "" && items.every((item) => item.slot !== undefined);
  }

  /** Whether a node exists after `position` decisions. */
  exists(node, position) {
    const { born, gone } = this.nodes;
    return born[node] < position && (gone[node] < 0 || gone[node] >= position);
  }

  /**
   * Return the node in a slot after `position` decisions: [node, whether it is a ghost]; node −1 if the slot is empty.
   * Ghosts are nodes removed since decision `first`, the first one of the stage.
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

  /** Return the text of a closed box at a position, "" while it contains nodes. @param {number} box @param {number} position */
  rowText(box, position) {
    return this.#rows.get(box)?.filter(([first]) => first <= position).at(-1)?.[1] ?? "";
  }

  /** Return the closed boxes whose text changes at a position. @param {number} position */
  rowsAt(position) {
    return this.#rowsAt.of(position);
  }

  /** Return the text of a kernel's measured time: "3 µs", "3 µs once", or "computed before" if it is not part of a warm run. @param {number} kernel @param {number} micros */
  timeText(kernel, micros) {
    if (!this.once.has(kernel)) return microsText(micros);
    return this.isOnce(kernel) ? onceText(micros) : "computed before";
  }

  /** Return the live bytes while a kernel runs: as run if it ran, else as planned. */
  live(kernel) {
    const step = this.stepOf.get(kernel);
    return step === undefined ? this.kernels[kernel].live : this.steps[step].live;
  }
}
