// Marks of closed boxes about the nodes that they hide, and the boxes that hold nothing now: sums kept by difference.

import { microsText } from "../data/number_format.js";

/**
 * @typedef {{changed: number, active: boolean, empty: boolean, member: boolean, output: boolean,
 *   waits: number, done: number, waiting: boolean, micros: number, second: string,
 *   left: string, key: string}} BoxMark the nodes that a closed box hides; or a box that holds nothing now
 *   left: its text where only rows of batches are left in it
 * @typedef {{present: number, changed: number, active: number, output: number, waits: number, done: number, time: number, covered: number}} Sum
 *   present: slots with a node or ghost, at any depth; covered: outlines around the box; the others are of the nodes that it hides while closed
 */

/** Parts of a µs that times are added up in: integers, so that taking one away leaves no trace of it. */
const PARTS = 1 << 20;

/** Sums for the boxes of one placement. */
export class BoxMarks {
  /** @param {import("../data/trace.js").Trace} trace @param {import("./placement.js").Placement} placement */
  constructor(trace, placement) {
    this.trace = trace;
    this.placement = placement;
    /** @type {Map<number, Sum>} */ this.sums = new Map();
    /** @type {Map<number, BoxMark>} */ this.marks = new Map();
    for (const box of placement.boxes.keys()) this.sums.set(box, { present: 0, changed: 0, active: 0, output: 0, waits: 0, done: 0, time: 0, covered: 0 });
    /** boxes whose sums changed @type {Set<number>} */ this.stale = new Set(this.sums.keys());
    /** closed boxes that hold something */ this.inhabited = 0;
  }

  /** Add the mark of a slot, or take it away. @param {number} slot @param {import("./slot_states.js").SlotState} mark @param {boolean} attention @param {1 | -1} by */
  count(slot, mark, attention, by) {
    const { trace, placement } = this;
    for (let box = trace.boxOf[slot]; box >= 0; box = trace.layout.boxes[box].parent) {
      const around = this.sums.get(box);
      if (!around) continue;
      around.present += by;
      // Only the first that comes and the last that goes are to be seen.
      if (around.present === (by > 0 ? 1 : 0)) this.stale.add(box);
    }
    const sum = this.sums.get(placement.hiddenIn[slot]);
    if (!sum) return;
    this.stale.add(placement.hiddenIn[slot]);
    if (attention) sum.changed += by;
    if (mark.flags.includes("current")) sum.active += by;
    if (mark.flags.includes("output")) sum.output += by;
    if (mark.flags.includes("waiting")) sum.waits += by;
    else if (trace.kernelOf[mark.node] >= 0) sum.done += by;
    sum.time += by * Math.round(mark.micros * PARTS);
  }

  /** Count an outline around a box, or one less. @param {number} box @param {1 | -1} by */
  cover(box, by) {
    this.sums.get(box).covered += by;
    this.stale.add(box);
  }

  /** Bring the marks up to date. @param {number} position @returns {Set<number>} the boxes with other marks */
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
    const second = micros && !member ? microsText(micros) : "";
    const left = empty ? "" : this.trace.rowText(box, position);
    const key = `${changed}|${active}|${empty}|${member}|${output}|${waiting}|${second}|${left}`;
    return { changed, active, empty, member, output, waits, done, waiting, micros, second, left, key };
  }
}
