// Use counts at a position: uses of each slot as an operand or output, and the number of equal nodes that a node represents.

import { RowIndex } from "../data/row_index.js";

/** Counts for one trace, updated incrementally from decision to decision. */
export class UseCounts {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    /** slot → number of operands that refer to its node */ this.readers = new Int32Array(trace.layout.slots.length);
    /** slot → number of outputs that refer to its node */ this.outputs = new Int32Array(trace.layout.slots.length);
    const { substitutions } = trace.recording;
    /** decision → the substitution rows with which it merged equal nodes */
    this.merges = new RowIndex(trace.decisions.length, (enter) => trace.replay.merges.forEach((row) => enter(substitutions[row][0], row)));
    /** @type {Map<number, number>} node → number of equal nodes it represents, if others were merged into it */ this.copies = new Map();
  }

  /** Count everything at a position. @param {number} position */
  begin(position) {
    const { trace } = this;
    const final = trace.resolver(position);
    this.readers.fill(0);
    this.outputs.fill(0);
    this.copies.clear();
    for (let node = 0; node < trace.count; node++) this.#read(node, position, final, 1);
    for (const root of trace.roots) this.outputs[trace.slotOf[trace.origin(final[root])]]++;
    const { recording, replay } = trace;
    for (const row of replay.merges) if (recording.substitutions[row][0] < position) this.#merge(row, 1);
  }

  /** Apply one decision or undo it. @param {number} decision @param {boolean} forward @returns {Set<number>} the affected slots */
  step(decision, forward) {
    const { trace } = this;
    const changed = trace.substitutions.changed(decision);
    const nodes = new Set(trace.changedBy.of(decision));
    for (const node of changed.keys()) for (const reader of trace.readers.of(node)) nodes.add(reader);
    const roots = [...changed.keys()].filter((node) => trace.roots.has(node));
    const slots = new Set();
    for (const [position, by] of forward ? [[decision, -1], [decision + 1, 1]] : [[decision + 1, -1], [decision, 1]]) {
      const final = trace.resolver(position);
      for (const node of nodes) this.#read(node, position, final, by, slots);
      for (const root of roots) {
        const slot = trace.slotOf[trace.origin(final[root])];
        this.outputs[slot] += by;
        slots.add(slot);
      }
    }
    const merges = [...this.merges.of(decision)];
    for (const row of forward ? merges : merges.reverse()) {
      this.#merge(row, forward ? 1 : -1);
      slots.add(trace.slotOf[trace.recording.substitutions[row][2]]);
    }
    slots.delete(-1);
    return slots;
  }

  /** Count the operands of a node, if it exists, and add their slots to `slots`. @param {Set<number>} [slots] */
  #read(node, position, final, by, slots) {
    const { trace } = this;
    if (!trace.exists(node, position)) return;
    for (const operand of trace.nodes.operands[node]) {
      const slot = trace.slotOf[trace.origin(final[operand])];
      if (slot < 0) continue;
      this.readers[slot] += by;
      slots?.add(slot);
    }
  }

  #merge(row, by) {
    const [, old, kept] = this.trace.recording.substitutions[row];
    const count = (this.copies.get(kept) ?? 1) + by * (this.copies.get(old) ?? 1);
    if (count > 1) this.copies.set(kept, count);
    else this.copies.delete(kept);
  }
}
