// Costs of nodes, boxes and the whole graph: parameters, flops, bytes, time.

import { bytesText, countText, microsText } from "./number_format.js";
import { RowIndex } from "./row_index.js";

/**
 * @typedef {{nodes: number, operations: number, parameters: number, weights: number, others: number, flops: number, bytes: number,
 *   time: number, once: number, [metric: string]: number}} Cost
 *   `parameters` counts the elements of layers' and file operators' leaves, and `weights` their bytes; `others` counts the
 *   elements of the other leaves, the inputs of the program. A tensor with several leaves in a box counts once. `bytes` counts the bytes written: kernel results, not values
 *   passed on inside a kernel. `time` is in µs of every run,
 *   and `once` in µs before the first run.
 */

/**
 * @typedef {{name: string, unit: string, row: string, text: string, values: number[] | null, per?: number[] | null, boxes?: string}} Metric
 *   A row of Python's table of heat metrics; `values` has a value for each node, null if this module computes the sums itself.
 *   A ratio also has `per`, the values by which they are divided: a box has the ratio of the two sums. `boxes` is "max" if a box
 *   has the largest of the values in it instead of their sum.
 */

const UNITS = { __proto__: null, "µs": microsText, B: bytesText };

/** Format a metric's number with its unit. @param {{unit: string}} metric @param {number} value */
export function metricText({ unit }, value) {
  if (value < 0) return `−${metricText({ unit }, -value)}`;
  const text = UNITS[unit]?.(value) ?? (Number.isInteger(value) || value >= 100 ? countText(value) : value.toPrecision(2));
  return unit && !UNITS[unit] ? `${text} ${unit}` : text;
}

/** Return the field of Cost in which a metric is summed, a name that differs from the built-in fields. @param {Metric} metric */
export function sumName({ name, values }) {
  return values ? `metric ${name}` : name;
}

/** Return the value of a metric for one node. @param {Metric} metric @param {number} node */
export function nodeValue(/** @type {{values: any, per?: any}} */ { values, per }, node) {
  return per ? quotient(values[node], per[node]) : values[node];
}

/** Return whether a box has the largest of the values in it. @param {{boxes?: string}} metric */
export function isLargest({ boxes }) {
  return boxes === "max";
}

/** Return the value of a metric for a box: its sum, its largest value, or the ratio of two sums. @param {Metric} metric @param {Cost} cost */
export function boxValue(metric, cost) {
  if (isLargest(metric)) return cost[countName(metric)] ? cost[mostName(metric)] : 0;
  const sum = cost[sumName(metric)];
  return metric.per ? quotient(sum, cost[perName(metric)]) : sum;
}

/** Return the mean and the maximum of a metric with values over the nodes of a box whose value is not 0; null for fewer than two. @param {Metric} metric @param {Cost} cost */
export function spread(metric, cost) {
  const count = cost[countName(metric)];
  return count > 1 ? { mean: cost[sumName(metric)] / count, most: cost[mostName(metric)] } : null;
}

function quotient(value, divisor) {
  return divisor ? value / divisor : 0;
}

const perName = ({ name }) => `divisor ${name}`;
const mostName = ({ name }) => `${MOST}${name}`;
const countName = ({ name }) => `count ${name}`;
const MOST = "most ";
/** costs of stored tensors, which count once in a box */
const SIZES = ["parameters", "weights", "others"];

/** ratio whose parts this module computes from the tables of nodes and types */
const INTENSITY = "flops/byte";

/**
 * Return for each node its flops, and the bytes of its operands and result: 0 for leaves, views, and nodes whose flops are unknown.
 * @param {import("./trace.js").Trace} trace @returns {{values: number[], per: number[]}}
 */
function intensity({ nodes, recording: { types } }) {
  const bits = types.map(({ shape, dtype }) => shape.reduce((product, size) => product * size, Number(/\d+$/.exec(dtype)?.[0] ?? 8)));
  const size = (node) => nodes.bytes[node] || bits[nodes.type[node]] / 8;
  const moved = (flops, node) => (flops === null || !nodes.bytes[node] ? 0 : [...new Set([...nodes.operands[node], node])].reduce((sum, each) => sum + size(each), 0));
  return { values: nodes.flops.map((flops) => flops ?? 0), per: nodes.flops.map(moved) };
}

/** Costs of one trace. */
export class Totals {
  /** @param {import("./trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.time = trace.timeOf;
    const ofSlots = (/** @type {Float64Array} */ times) => trace.layout.slots.map((slot) => slot.nodes.reduce((sum, node) => sum + times[node], 0));
    this.slotTimes = ofSlots(trace.timeOf);
    this.slotOnce = ofSlots(trace.onceOf);
    const metrics = trace.metrics.map((metric) => (metric.name === INTENSITY ? { ...metric, ...intensity(trace) } : metric));
    /** @type {Metric[]} the metrics that have values */ this.metrics = metrics.filter(({ name }) => (name === "time" ? this.clock : !name.startsWith("flops") || trace.nodes.flops.some((flops) => flops !== null)));
    /** the metrics with values for each node, and the names of their sums */
    this.own = this.metrics.filter(({ values }) => values).map((metric) => ({ metric, sum: sumName(metric), per: perName(metric), most: mostName(metric), count: countName(metric) }));
    const names = Object.keys(this.#nothing());
    /** names of the costs of which a box has the sum */ this.sums = names.filter((name) => !name.startsWith(MOST));
    /** names of the costs of which a box has the largest */ this.largest = names.filter((name) => name.startsWith(MOST));
    /** number of decisions that had changed the graph when `boxes` was computed, −1 before */ this.changes = -1;
    /** @type {Cost[]} */ this.boxes = [];
    /** @type {Map<number, number>} box → the node that does its work: see workerOf */ this.workers = new Map();
    /** the recorded readers of each node, found when first asked for @type {RowIndex | undefined} */ this.readers = undefined;
    /** @type {number[][]} leaves of each stored tensor that has several */ this.shared = sharedLeaves(trace.recording);
    /** @type {Set<number>} nodes whose values are passed on inside a kernel at the position and not written */ this.inner = new Set();
  }

  /** Source of the times: "measured" by a run, "estimated" by the plan, "" without either. */
  get clock() {
    return this.trace.steps.length ? "measured" : this.trace.kernels.some(({ estimate }) => estimate !== null) ? "estimated" : "";
  }

  /** Return the metrics in the order of a box's cost table: built-in metrics, with the time last, then added metrics. */
  inOrderOfCosts() {
    const own = this.metrics.filter(({ values }) => !values);
    return [...own.filter(({ name }) => name !== "time"), ...own.filter(({ name }) => name === "time"), ...this.metrics.filter(({ values }) => values)];
  }

  /** Return the heading of a metric; the heading of a time includes its source. @param {Metric} metric */
  heading({ name, row, values }) {
    if (values) return row || name;
    return name === "time" ? `${this.clock} time` : name;
  }

  /**
   * Return the node outside a box that does the box's work: the costliest node of the kernel that computes the box's
   * costliest operation or, if a rewrite absorbed it, the nearest readers. Return −1 if the box does its work itself.
   * @param {number} box
   */
  workerOf(box) {
    if (!this.workers.has(box)) this.workers.set(box, this.#workerOf(box));
    return this.workers.get(box);
  }

  #workerOf(box) {
    const { trace } = this;
    const { flops, bytes, born } = trace.nodes;
    const inside = this.#inside(box);
    const most = (nodes) => nodes.reduce((best, node) => (best < 0 || flops[node] > flops[best] ? node : best), -1);
    const main = most([...inside].filter((node) => born[node] < 0 && (flops[node] || bytes[node]) && this.#isOperation(node)));
    const final = trace.resolver(trace.decisions.length);
    // If the operation has a part of its kernel's time, the box does its work itself.
    if (main < 0 || (inside.has(final[main]) && (this.time[final[main]] || trace.onceOf[final[main]]))) return -1;
    const kernel = this.#kernelAfter(main, final);
    const worker = kernel < 0 ? -1 : most(trace.kernels[kernel].nodes);
    return inside.has(worker) ? -1 : worker;
  }

  /** The nodes of a box and of all boxes in it. */
  #inside(box) {
    const { boxes, slots } = this.trace.layout;
    const nodes = new Set();
    const pending = [box];
    for (const each of pending) {
      for (const item of boxes[each].items) {
        if (item.slot === undefined) pending.push(item.box);
        else for (const node of slots[item.slot].nodes) nodes.add(node);
      }
    }
    return nodes;
  }

  /** Return the kernel that computes a recorded node or, if a rewrite absorbed the node, its nearest readers; −1 if there is none. */
  #kernelAfter(node, final) {
    const { trace } = this;
    const { operands, born } = trace.nodes;
    this.readers ??= new RowIndex(trace.count, (enter) => operands.forEach((read, reader) => born[reader] < 0 && read.forEach((operand) => enter(operand, reader))));
    const reached = new Set([node]);
    for (const each of reached) {
      let now = final[each];
      const isThere = trace.exists(now, trace.decisions.length);
      // A view that replaces the node, such as a row of a batch, reads a value that a kernel computes.
      while (now !== each && trace.kernelOf[now] < 0 && operands[now].length) now = final[operands[now][0]];
      if (trace.kernelOf[now] >= 0) return trace.kernelOf[now];
      if (!isThere) for (const reader of this.readers.of(each)) reached.add(reader);
    }
    return -1;
  }

  /** Return the cost of a single node, without its time, at the position of the last call of `at`. @param {number} node @returns {Cost} */
  node(node) {
    const cost = this.#nothing();
    this.#enter(cost, node);
    return cost;
  }

  /** Add the cost of a node to a sum. @param {Cost} sum @param {number} node */
  #enter(sum, node) {
    const { flops, bytes } = this.trace.nodes;
    const { parameters, weights, others } = this.trace.recording.leaves;
    sum.nodes++;
    if (this.#isOperation(node)) sum.operations++;
    sum.parameters += parameters[node] ?? 0;
    sum.weights += weights[node] ?? 0;
    sum.others += others[node] ?? 0;
    sum.flops += flops[node] ?? 0;
    if (!this.inner.has(node)) sum.bytes += bytes[node];
    for (const { metric, sum: all, per, most, count } of this.own) {
      const value = metric.values[node];
      sum[all] += value;
      sum[per] += metric.per?.[node] ?? 0;
      if (!value) continue;
      sum[most] = Math.max(sum[most], nodeValue(metric, node));
      sum[count]++;
    }
  }

  #isOperation(node) {
    const kind = this.trace.nodes.kind[node];
    return kind === "operation" || kind === "call";
  }

  /** Add a cost to a sum. @param {Cost} sum @param {Cost} cost */
  #add(sum, cost) {
    for (const name of this.sums) sum[name] += cost[name];
    for (const name of this.largest) sum[name] = Math.max(sum[name], cost[name]);
  }

  /** Return the costs of all boxes after `position` decisions, in the order of the boxes. @returns {Cost[]} */
  at(position) {
    const { trace } = this;
    // Most decisions are declined and change nothing.
    const changes = trace.changesUntil(position);
    if (changes === this.changes) return this.boxes;
    this.changes = changes;
    const { boxes, slots } = trace.layout;
    this.boxes = boxes.map(() => this.#nothing());
    this.inner = this.#inner(position);
    slots.forEach((slot, index) => {
      if (trace.boxOf[index] < 0) return;
      const box = this.boxes[trace.boxOf[index]];
      for (const node of slot.nodes) if (trace.exists(node, position)) this.#enter(box, node);
      // A run belongs to the final graph, so its times are shown at their final slots at every position.
      box.time += this.slotTimes[index];
      box.once += this.slotOnce[index];
    });
    this.#subtractRepeated(position);
    // Visit inner boxes first, so that one addition for each box is enough.
    for (const box of this.#insideOut()) if (boxes[box].parent >= 0) this.#add(this.boxes[boxes[box].parent], this.boxes[box]);
    return this.boxes;
  }

  /**
   * Subtract the sizes of leaves where they meet another leaf of the same tensor, so that each box counts the tensor once.
   * @param {number} position
   */
  #subtractRepeated(position) {
    const { trace } = this;
    for (const group of this.shared) {
      const visited = new Set();
      for (const leaf of group) {
        if (!trace.exists(leaf, position)) continue;
        let box = trace.boxOf[trace.slotOf[leaf]] ?? -1;
        for (; box >= 0 && !visited.has(box); box = trace.layout.boxes[box].parent) visited.add(box);
        if (box < 0) continue;
        const size = this.node(leaf);
        for (const name of SIZES) this.boxes[box][name] -= size[name];
      }
    }
  }

  /** @returns {Set<number>} */
  #inner(position) {
    const kernels = this.trace.recording.groups.filter(({ kind, decision }) => kind === "kernel" && decision < position);
    const inner = new Set(kernels.flatMap(({ members }) => members.slice(0, -1)));
    // A kernel may compute a value again that another kernel writes.
    for (const { members } of kernels) if (this.trace.kernelsOf.of(members.at(-1)).length > 1) inner.delete(members.at(-1));
    return inner;
  }

  #nothing() {
    const sums = { nodes: 0, operations: 0, parameters: 0, weights: 0, others: 0, flops: 0, bytes: 0, time: 0, once: 0 };
    for (const { sum, per, most, count } of this.own) [sums[sum], sums[per], sums[most], sums[count]] = [0, 0, -Infinity, 0];
    return sums;
  }

  #insideOut() {
    const { boxes, bodies } = this.trace.layout;
    const order = [...bodies];
    for (const box of order) for (const item of boxes[box].items) if (item.box !== undefined) order.push(item.box);
    return order.reverse();
  }
}

/** Return the leaves of each stored tensor that has several; parameters and other leaves are summed separately. */
function sharedLeaves({ shared_leaves: shared = {}, leaves }) {
  /** @type {Map<string, number[]>} */ const groups = new Map();
  const firsts = new Set(Object.values(shared));
  for (const [leaf, first] of [...[...firsts].map((first) => [first, first]), ...Object.entries(shared)]) {
    const key = `${first} ${leaves.parameters[leaf] !== undefined}`;
    const group = groups.get(key);
    if (group) group.push(Number(leaf));
    else groups.set(key, [Number(leaf)]);
  }
  return [...groups.values()];
}
