// Outlined groups at a moment: fused kernels and batches with their numbers and times.

/**
 * @typedef {{group: any, index: number, slots: number[], boxes: number[], again: number[], state: string, number: number, time: string}} Frame
 *   boxes: the closed operator boxes that hide members; again: slots that other kernels compute, too
 */

import { RowIndex } from "../data/row_index.js";

/** Outlines of one trace. */
export class Frames {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    const { groups } = trace.recording;
    const { outlined } = trace.replay;
    const count = trace.decisions.length;
    this.bornBy = new RowIndex(count, (enter) => groups.forEach(({ decision }, index) => enter(decision, index)));
    this.goneBy = new RowIndex(count, (enter) => outlined.forEach((position, index) => enter(position < count ? position : -1, index)));
    this.holding = new RowIndex(trace.count, (enter) => groups.forEach(({ members }, index) => members.forEach((node) => enter(node, index))));
    this.ofKernel = new RowIndex(trace.kernels.length, (enter) => groups.forEach((group, index) => enter(trace.kernelOf[group.members.at(-1)], index)));
  }

  /** Yield the groups whose outlines a decision may change. @param {number} decision @returns {Iterable<number>} */
  *changedBy(decision) {
    yield* this.bornBy.of(decision);
    yield* this.goneBy.of(decision);
    for (const node of this.trace.changedBy.of(decision)) yield* this.holding.of(node);
  }

  /** Return the outline of a group, undefined if it has none. @param {number} index @param {import("../data/timeline.js").Moment} moment @param {import("./placement.js").Placement} placement @returns {Frame | undefined} */
  frame(index, moment, placement) {
    const { trace } = this;
    const group = trace.recording.groups[index];
    if (group.decision >= moment.position || moment.position > trace.replay.outlined[index]) return undefined;
    const slots = group.members.filter((node) => trace.exists(node, moment.position)).map((node) => trace.slotOf[node]);
    if (slots.length < 2) return undefined;
    const shown = slots.filter((slot) => placement.hiddenIn[slot] === -1);
    const hiding = new Set(slots.map((slot) => placement.hiddenIn[slot]).filter((box) => box !== -1));
    const boxes = [...hiding].filter((box) => box >= 0 && trace.isOperator(box));
    // A kernel inside one closed operator is not outlined, because the box is its outline.
    if (!shown.length && (!boxes.length || hiding.size < 2)) return undefined;
    const again = group.members.filter((node) => trace.kernelsOf.of(node).length > 1).map((node) => trace.slotOf[node]);
    return { group, index, slots: shown, boxes, again, ...this.#now(group, moment) };
  }

  /** Return the state, number and time of a group. */
  #now(group, moment) {
    const { trace } = this;
    const { phase, whole } = moment;
    const kernel = trace.kernelOf[group.members.at(-1)];
    const isKernel = group.kind === "kernel" && kernel >= 0;
    const numbered = isKernel && (phase === "format" || phase === "memory" || phase === "run" || (phase === "order" && (whole || kernel <= moment.kernel)));
    const waits = isKernel && (moment.kernel >= 0 || moment.hint !== undefined) && this.#place(kernel, moment) > this.#place(moment.kernel, moment);
    const state = group.decision === moment.decision ? "new" : isKernel && kernel === moment.kernel ? "current" : waits ? "waiting" : "plain";
    const step = isKernel && phase === "run" && (whole || moment.kernel >= 0) && !waits ? trace.stepOf.get(kernel) : undefined;
    return { state, number: numbered ? kernel + 1 : 0, time: step === undefined ? "" : trace.timeText(kernel, trace.steps[step].micros) };
  }

  /** Return the position of a kernel in the order or the run. */
  #place(kernel, moment) {
    return moment.phase === "run" ? (this.trace.stepOf.get(kernel) ?? -1) : kernel;
  }
}
