// Marks of closed boxes about their hidden nodes, and of boxes that are empty now, from incrementally updated sums.

import { counted, microsText, onceText } from "../data/number_format.js";

/**
 * @typedef {{changed: number, active: boolean, empty: boolean, member: boolean, output: boolean,
 *   waits: number, done: number, waiting: boolean, micros: number, second: string,
 *   kernels: string, left: string, decided: Decided | undefined, key: string}} BoxMark summary of a closed box's hidden nodes, or of a box that is empty now
 *   kernels: the number of kernels that compute them, "" for a single one
 *   left: its text if it contains only rows of batches; decided: numbers of a whole stage's decisions about its nodes
 * @typedef {{applied: number, declined: number}} Decided
 * @typedef {{present: number, changed: number, active: number, output: number, waits: number, done: number, time: number, once: number, covered: number, kernels: Map<number, number>}} Sum
 *   present: slots with a node or ghost, directly in an open box or anywhere in a closed one, and visible boxes in it that are not empty; covered: outlines around the box; kernels: kernel → nodes; the other fields count the nodes that it hides while closed
 */

/** Units per µs in which times are summed, as integers, so that subtracting a time is exact. */
const PARTS = 1 << 20;

/** Marks of the boxes of one placement. */
export class BoxMarks {
  /** @param {import("../data/trace.js").Trace} trace @param {import("./placement.js").Placement} placement */
  constructor(trace, placement) {
    this.trace = trace;
    this.placement = placement;
    /** @type {Map<number, Sum>} */ this.sums = new Map();
    /** @type {Map<number, BoxMark>} */ this.marks = new Map();
    for (const box of placement.boxes.keys()) this.sums.set(box, { present: 0, changed: 0, active: 0, output: 0, waits: 0, done: 0, time: 0, once: 0, covered: 0, kernels: new Map() });
    /** boxes whose sums changed @type {Set<number>} */ this.stale = new Set(this.sums.keys());
    /** number of closed boxes that are not empty */ this.inhabited = 0;
    /** numbers of a whole stage's decisions about the hidden nodes of closed boxes @type {Map<number, Decided>} */ this.decided = new Map();
  }

  /** Count the decisions of a whole stage in the closed boxes that hide their nodes. @param {{first: number, last: number}} stage */
  decide({ first, last }) {
    const { trace, placement } = this;
    for (let index = first; index < last; index++) {
      const { subjects, produced, verdict } = trace.decisions[index];
      const boxes = new Set([...subjects, ...produced, ...trace.changedBy.of(index)].map((node) => placement.hiddenIn[trace.slotOf[node]]));
      for (const box of boxes) {
        if (!this.sums.has(box)) continue;
        const counts = this.decided.get(box) ?? { applied: 0, declined: 0 };
        counts[verdict]++;
        this.decided.set(box, counts);
      }
    }
  }

  /** Add (`by` = 1) or remove (−1) the mark of a slot. @param {number} slot @param {import("./slot_states.js").SlotState} mark @param {boolean} attention @param {1 | -1} by */
  count(slot, mark, attention, by) {
    const { trace, placement } = this;
    const hidden = placement.hiddenIn[slot];
    for (let box = hidden >= 0 ? hidden : trace.boxOf[slot]; box >= 0; box = trace.layout.boxes[box].parent) {
      const around = this.sums.get(box);
      around.present += by;
      // Only the first addition and the last removal change whether the box is empty.
      if (around.present !== (by > 0 ? 1 : 0)) break;
      this.stale.add(box);
    }
    const sum = this.sums.get(hidden);
    if (!sum) return;
    this.stale.add(hidden);
    if (attention) sum.changed += by;
    if (mark.flags.includes("current")) sum.active += by;
    if (mark.flags.includes("output")) sum.output += by;
    if (mark.flags.includes("waiting")) sum.waits += by;
    else if (trace.kernelOf[mark.node] >= 0) sum.done += by;
    if (mark.kernel >= 0) {
      const nodes = (sum.kernels.get(mark.kernel) ?? 0) + by;
      if (nodes) sum.kernels.set(mark.kernel, nodes);
      else sum.kernels.delete(mark.kernel);
    }
    sum.time += by * Math.round(mark.micros * PARTS);
    sum.once += by * Math.round(mark.once * PARTS);
  }

  /** Add or remove an outline around a box. @param {number} box @param {1 | -1} by */
  cover(box, by) {
    this.sums.get(box).covered += by;
    this.stale.add(box);
  }

  /** Update the marks. @param {number} position @returns {Set<number>} the boxes whose marks changed */
  refresh(position) {
    const { stale, marks } = this;
    this.stale = new Set();
    for (const box of stale) {
      const before = marks.get(box);
      const mark = this.#mark(box, position);
      if (this.#isFull(box, before)) this.inhabited--;
      if (this.#isFull(box, mark)) this.inhabited++;
      if (mark) marks.set(box, mark);
      else marks.delete(box);
    }
    return stale;
  }

  #isFull(box, mark) {
    return mark !== undefined && !mark.empty && box !== this.placement.outermost;
  }

  /** @returns {BoxMark | undefined} */
  #mark(box, position) {
    const sum = this.sums.get(box);
    const empty = sum.present === 0;
    if (!empty && this.placement.composed.has(box)) return undefined;
    const { changed, waits, done } = sum;
    const member = !empty && sum.covered > 0;
    const [active, output, waiting] = [sum.active > 0, sum.output > 0, waits > 0 && done === 0];
    const micros = sum.time / PARTS;
    const second = member ? "" : micros ? microsText(micros) : sum.once ? onceText(sum.once / PARTS) : "";
    const kernels = sum.kernels.size > 1 ? counted(sum.kernels.size, "kernel") : "";
    const left = empty ? "" : this.trace.rowText(box, position);
    const decided = this.decided.get(box);
    const key = `${changed}|${active}|${empty}|${member}|${output}|${waiting}|${second}|${kernels}|${left}|${decided?.applied}|${decided?.declined}`;
    return { changed, active, empty, member, output, waits, done, waiting, micros, second, kernels, left, decided, key };
  }
}
