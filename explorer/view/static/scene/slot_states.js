// States of slots at a moment: the node or ghost, its change, and the current work of its kernel.

import { bytesText } from "../data/number_format.js";
import { meanings } from "../panel/term_tooltips.js";
import { scalarText } from "../panel/value_summary.js";

const PLACE_IN_SCHEDULE = meanings("level chain");
/** Maximum width in characters of a value in a node; superscript digits count half. */
const LONGEST = 12;

/**
 * @typedef {{node: number, state: string, flags: string[], tag: string, second: string, time: string, tip: string, number: number, kernel: number,
 *   copies: number, apart: number[], heat: number, micros: number, once: number, bad: string, member: boolean, key: string}} SlotState the state of a slot
 *   state: "plain", "new" (by this decision), "fresh" (by this stage), "gone", "was" (gone earlier in this stage)
 *   time: the time of its kernel, if its second line is a value
 *   tip: the meanings of the terms of its second line
 *   micros, once: its share of the time of its kernel, if that has run, in every run or before the first run
 *   apart: the nodes with which a declined decision did not fuse it
 */

/** Return the width of a string in full-width characters. @param {string} text */
const characters = (text) => text.length - (text.match(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]/g)?.length ?? 0) / 2;

/** States of the slots of one trace. */
export class SlotStates {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline */
  constructor(trace, timeline) {
    this.trace = trace;
    this.timeline = timeline;
  }

  /** Return the state of a slot at a moment, null if the slot is empty. A slot that is not drawn has no texts, no heat and no key. @param {number} slot @param {import("../data/timeline.js").Moment} moment @param {boolean} isDrawn @returns {SlotState | null} */
  state(slot, moment, isDrawn, { decision, touched, ready, uses, memberships }) {
    const { trace } = this;
    const { born, gone, kind } = trace.nodes;
    const first = this.timeline.stages[moment.stage]?.first ?? 0;
    const [node, isGhost] = trace.standing(slot, moment.position, first);
    if (node < 0) return null;
    const flags = [];
    let state = "plain";
    if (isGhost) state = moment.decision >= 0 && gone[node] === moment.decision ? "gone" : "was";
    else if (moment.decision >= 0 && born[node] === moment.decision) state = "new";
    else if (born[node] >= first && born[node] >= 0) state = "fresh";
    if (touched.has(node)) flags.push(decision.verdict === "applied" ? "subject" : "declined");
    if (!isGhost && uses.outputs[slot] > 0) flags.push("output");
    else if (!isGhost && !uses.readers[slot] && !trace.roots.has(node)) flags.push("unused");
    if (kind[node] === "leaf" || kind[node] === "input" || kind[node] === "constant") flags.push("leaf");
    if (kind[node] === "call") flags.push("call");
    const mark = { node, state, flags, tag: "", second: "", time: "", tip: "", number: 0, kernel: -1, copies: isGhost ? 1 : (uses.copies.get(node) ?? 1), apart: [], heat: 0, micros: 0, once: 0, bad: "", member: memberships[slot] > 0, key: "" };
    if (!isGhost) this.#scheduled(mark, moment, isDrawn, ready);
    if (!isDrawn) return mark;
    if (mark.bad) flags.push("bad");
    if (state === "new") mark.second = this.#predecessor(mark, slot, moment);
    mark.tag = this.#tag(mark, moment);
    // The key contains everything that is drawn, so a slot with an unchanged key is not drawn again.
    mark.key = `${node}|${state}|${flags.join()}|${mark.tag}|${mark.second}|${mark.time}|${mark.number}|${mark.copies}|${mark.heat}|${mark.member}`;
    return mark;
  }

  /** Add the state of a node in the stages order, buffers and run. */
  #scheduled(mark, moment, isDrawn, ready) {
    const { trace } = this;
    const index = trace.kernelOf[mark.node];
    const { phase } = moment;
    if (phase !== "order" && phase !== "memory" && phase !== "format" && phase !== "run") return;
    if (index < 0) {
      if (isDrawn && phase === "run") mark.second = this.#scalar(mark.node);
      return;
    }
    const kernel = trace.kernels[index];
    const isResult = kernel.nodes[kernel.nodes.length - 1] === mark.node;
    if (phase === "order") {
      if (moment.kernel < 0 && !moment.whole && !moment.hint) return;
      if (!moment.whole && ready.has(mark.node) && index > moment.kernel) mark.flags.push("ready");
      if (index === moment.kernel) mark.flags.push("current");
      if (!moment.whole && index > moment.kernel) return void mark.flags.push("waiting");
      if (isDrawn && isResult && kernel.level !== null) [mark.second, mark.tip] = [`level ${kernel.level} · chain ${kernel.chain}`, PLACE_IN_SCHEDULE];
    }
    mark.kernel = index;
    mark.number = isResult && kernel.nodes.length === 1 ? index + 1 : 0;
    if (isDrawn && phase === "memory" && isResult && !(index >= moment.placed)) mark.second = bufferText(kernel, trace.once.has(index));
    if (phase === "run") this.#ran(mark, moment, index, isDrawn, isResult);
  }

  #ran(mark, moment, index, isDrawn, isResult) {
    const { trace } = this;
    const step = trace.stepOf.get(index);
    const now = moment.whole ? trace.steps.length : trace.stepOf.get(moment.kernel);
    if (step === undefined || now === undefined) return;
    if (step > now) return void mark.flags.push("waiting");
    [mark.micros, mark.once] = [trace.timeOf[mark.node], trace.onceOf[mark.node]];
    if (step === now) mark.flags.push("current");
    if (!isDrawn) return;
    if (isResult) {
      const { micros } = trace.steps[step];
      // The outline shows the kernel's time, because it is not the time of the last operation only.
      if (!mark.member) mark.second = trace.timeText(index, micros);
      if (!mark.member && !trace.isOnce(index)) mark.heat = Math.round((100 * micros) / trace.slowest) / 100;
      mark.bad = badText(trace.values[mark.node]);
      const freed = trace.freedBy[mark.node];
      if (step < now && !moment.whole) mark.flags.push(freed < 0 || trace.stepOf.get(freed) >= now ? "live" : "dead");
    } else if (step < now && !moment.whole) mark.flags.push("dead");
    const value = this.#scalar(mark.node);
    if (value) [mark.time, mark.second] = [mark.second, value];
  }

  /** Return the value of a known scalar as "= 0.9051", "" for other nodes. @param {number} node */
  #scalar(node) {
    const summary = this.trace.values[node];
    const text = summary ? scalarText(summary) : "";
    return text && characters(text) <= LONGEST ? `= ${text}` : "";
  }

  /** Return the word on a node that names its state. */
  #tag(mark, moment) {
    if (mark.state === "new") return "new";
    if (mark.flags.includes("declined")) return "declined";
    if (mark.bad) return mark.bad;
    if (mark.flags.includes("current")) {
      const isFirst = this.trace.kernels[moment.kernel].nodes[0] === mark.node;
      return isFirst ? (moment.phase === "run" ? "runs" : "picked") : "";
    }
    if (mark.flags.includes("ready")) return "ready";
    if (mark.flags.includes("live")) return "live";
    return mark.flags.includes("unused") ? "unused" : "";
  }

  /** Return "was log" if a new node replaces another. */
  #predecessor(mark, slot, moment) {
    const { trace } = this;
    const before = trace.layout.slots[slot].nodes[trace.placeOf[mark.node] - 1];
    return before !== undefined && trace.nodes.gone[before] === moment.decision ? `was ${trace.label(before)}` : "";
  }

  /** Whether a moment concerns a slot. @param {SlotState} mark @param {import("../data/timeline.js").Moment} moment */
  needsAttention(mark, moment) {
    if (moment.decision < 0) return mark.flags.includes("current");
    return mark.state === "new" || mark.state === "gone" || mark.flags.includes("subject") || mark.flags.includes("declined");
  }
}

/** Return "NaN" or "inf" if a value contains any, else "". @param {any} summary */
export function badText(summary) {
  return summary?.nan ? "NaN" : summary?.inf ? "inf" : "";
}

/** Return the location of a kernel's result: "buffer 1 · 6 KB", "buffer 0 · in place", "a view", "kept for all runs"; "" if it is unknown. */
export function bufferText(kernel, isOnce) {
  if (kernel.buffer === null) return "";
  if (kernel.buffer < 0) return !kernel.bytes ? "a view" : isOnce ? "kept for all runs" : "the caller's";
  return `buffer ${kernel.buffer} · ${kernel.in_place ? "in place" : bytesText(kernel.bytes)}`;
}
