// Scene at a moment: the node in each slot with its state, ghosts, edges, fused kernels, numbers and duplicates.

import { BoxMarks } from "./box_marks.js";
import { EdgeStates } from "./edge_states.js";
import { Frames } from "./frames.js";
import { SlotStates } from "./slot_states.js";
import { UseCounts } from "./use_counts.js";

/**
 * @typedef {{since: number, slots: Set<number>, boxes: Set<number>, edges: Set<string>, frames: Set<number>}} Changes
 *   differences from the scene with number `since`, −1 if there is no such scene
 * @typedef {{number: number, moment: import("../data/timeline.js").Moment, slots: Map<number, import("./slot_states.js").SlotState>,
 *   boxes: Map<number, import("./box_marks.js").BoxMark>, frames: Map<number, import("./frames.js").Frame>,
 *   edges: Map<string, import("./edge_states.js").EdgeState>, moves: import("./edge_states.js").Move[], attention: number[],
 *   drawn: {nodes: number, boxes: number}, changes: Changes}} Scene drawn: number of nodes, visible or not, and of closed boxes that are not empty
 */

/** Builder of the scenes of one trace. A step updates only the slots that its decision or kernel affects. The scenes share their tables. */
export class SceneBuilder {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("./placement.js").Paths} paths */
  constructor(trace, timeline, paths) {
    this.trace = trace;
    this.paths = paths;
    this.slotStates = new SlotStates(trace, timeline);
    this.frames = new Frames(trace);
    this.uses = new UseCounts(trace);
    this.cut = new Map();
    this.number = 0;
    /** total number of slots that were updated, a measure of the work for tests */ this.visited = 0;
    /** slot → number of outlines with it as a member */ this.memberships = new Int32Array(trace.layout.slots.length);
    /** @type {Scene | null} */ this.last = null;
    /** @type {import("./placement.js").Placement | null} */ this.placement = null;
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {import("./placement.js").Placement} placement @returns {Scene} */
  scene(moment, placement) {
    const { last } = this;
    this.last = last && this.placement === placement && isStep(last.moment, moment) ? this.#step(last, moment) : this.#begin(moment, placement);
    return this.last;
  }

  /** Build a scene from scratch. */
  #begin(moment, placement) {
    const { trace } = this;
    this.placement = placement;
    this.boxMarks = new BoxMarks(trace, placement);
    if (moment.whole && moment.stage >= 0) this.boxMarks.decide(trace.recording.stages[moment.stage]);
    this.edgeStates = new EdgeStates(trace, this.paths, placement, this.cut);
    this.memberships.fill(0);
    this.uses.begin(moment.position);
    const { marks } = this.boxMarks;
    const { edges } = this.edgeStates;
    /** @type {Scene} */
    const scene = { number: ++this.number, moment, slots: new Map(), boxes: marks, frames: new Map(), edges, moves: [], attention: [], drawn: { nodes: 0, boxes: 0 }, changes: this.#changes(-1) };
    const { hiddenIn } = placement;
    const slots = [];
    for (let slot = 0; slot < hiddenIn.length; slot++) if (hiddenIn[slot] !== -2) slots.push(slot);
    for (const group of trace.recording.groups.keys()) this.#frame(scene, group);
    return this.#refresh(scene, slots, new Set());
  }

  #changes(since) {
    return { since, slots: new Set(), boxes: new Set(), edges: new Set(), frames: new Set() };
  }

  /** Build the scene one step forward or back, or the same one again, from the last scene. */
  #step(last, moment) {
    const { trace, uses } = this;
    /** @type {Scene} */
    const scene = { ...last, number: ++this.number, moment, drawn: { ...last.drawn }, changes: this.#changes(last.number) };
    if (last.moment.step === moment.step) return scene;
    const [slots, groups, readers] = [new Set(this.apart), new Set(), new Set()];
    for (const decision of new Set([last.moment.decision, moment.decision])) {
      if (decision < 0) continue;
      const { subjects, produced } = trace.decisions[decision];
      for (const node of [...subjects, ...produced, ...trace.changedBy.of(decision)]) slots.add(trace.slotOf[node]);
      for (const node of trace.substitutions.changed(decision).keys()) for (const reader of trace.readers.of(node)) readers.add(trace.slotOf[reader]);
      for (const group of this.frames.bornBy.of(decision)) groups.add(group);
    }
    for (const { slot } of this.#apartBy(moment.decision, moment.decision + 1, moment.position).flat()) slots.add(slot);
    const [from, to] = [last.moment.position, moment.position];
    const decision = Math.min(from, to);
    if (from !== to) {
      for (const slot of uses.step(decision, to > from)) slots.add(slot);
      for (const group of this.frames.changedBy(decision)) groups.add(group);
      for (const box of trace.rowsAt(decision + 1)) if (this.boxMarks.sums.has(box)) this.boxMarks.stale.add(box);
    }
    for (const index of this.#kernelsBetween(last.moment, moment)) {
      const kernel = trace.kernels[index];
      for (const node of [...kernel.nodes, ...kernel.ready_candidates, ...kernel.frees]) slots.add(trace.slotOf[node]);
      for (const group of this.frames.ofKernel.of(index)) groups.add(group);
    }
    slots.delete(-1);
    readers.delete(-1);
    for (const group of groups) this.#frame(scene, group, slots);
    return this.#refresh(scene, slots, readers);
  }

  /** Yield the kernels between the last moment's kernel and this moment's, inclusive. @returns {Iterable<number>} */
  *#kernelsBetween(last, moment) {
    const { trace } = this;
    if (last.kernel < 0 || last.kernel === moment.kernel) return;
    const isRun = moment.phase === "run";
    const [low, high] = [last.kernel, moment.kernel].map((kernel) => (isRun ? trace.stepOf.get(kernel) : kernel)).sort((a, b) => a - b);
    for (let index = low; index <= high; index++) yield isRun ? trace.steps[index].kernel : index;
  }

  /** Update some slots, and the edges of additional slots. @param {Scene} scene @param {Iterable<number>} slots each once @param {Set<number>} readers */
  #refresh(scene, slots, readers) {
    const { trace, edgeStates, boxMarks } = this;
    const { moment, changes } = scene;
    const decision = trace.decisions[moment.decision];
    const touched = new Set(decision ? [...decision.subjects, ...decision.produced] : []);
    const ready = new Set(moment.hint ?? (moment.phase === "order" ? (trace.kernels[moment.kernel]?.ready_candidates ?? []) : []));
    const now = { decision, touched, ready, uses: this.uses, memberships: this.memberships };
    const attention = new Set(scene.attention);
    const wasAttention = new Set(attention);
    const { hiddenIn } = this.placement;
    for (const slot of slots) {
      if (hiddenIn[slot] === -2) continue;
      this.visited++;
      // A scene that is built from scratch has no slots yet.
      const before = changes.since >= 0 ? scene.slots.get(slot) : undefined;
      const mark = this.slotStates.state(slot, moment, hiddenIn[slot] === -1, now);
      if (mark && this.slotStates.needsAttention(mark, moment)) attention.add(slot);
      else attention.delete(slot);
      if (before) this.#count(scene, slot, before, wasAttention.has(slot), -1);
      if (mark) this.#count(scene, slot, mark, attention.has(slot), 1);
      if (mark) scene.slots.set(slot, mark);
      else if (before) scene.slots.delete(slot);
      if (changes.since >= 0 && (before || mark)) changes.slots.add(slot);
      // A ghost has edges to the former readers of its node.
      if (isGhost(before) || isGhost(mark)) for (const reader of this.#readersOf(slot)) readers.add(reader);
    }
    scene.attention = [...attention].sort((a, b) => a - b);
    const final = trace.resolver(moment.position);
    const stood = moment.decision < 0 ? new Map() : trace.substitutions.changed(moment.decision);
    edgeStates.forgive();
    for (const slot of slots) edgeStates.read(slot, scene.slots.get(slot), scene, final, stood);
    for (const slot of readers) edgeStates.read(slot, scene.slots.get(slot), scene, final, stood);
    this.#decline(scene);
    scene.moves = [...edgeStates.moves].sort(([a], [b]) => a - b).flatMap(([, moves]) => moves);
    changes.edges = edgeStates.stale;
    edgeStates.stale = new Set();
    changes.boxes = boxMarks.refresh(moment.position);
    scene.drawn = { nodes: scene.drawn.nodes, boxes: boxMarks.inhabited };
    return scene;
  }

  #count(scene, slot, mark, attention, by) {
    this.boxMarks.count(slot, mark, attention, by);
    if (this.placement.hiddenIn[slot] === -1) scene.drawn.nodes += by;
  }

  /** Update the outline of a group, and add its members to the slots to update. @param {Scene} scene @param {number} index @param {Set<number>} [slots] */
  #frame(scene, index, slots) {
    const before = scene.frames.get(index);
    const frame = this.frames.frame(index, scene.moment, this.placement);
    for (const [each, by] of /** @type {[import("./frames.js").Frame | undefined, 1 | -1][]} */ ([[before, -1], [frame, 1]])) {
      for (const slot of each?.slots ?? []) {
        this.memberships[slot] += by;
        slots?.add(slot);
      }
      for (const box of each?.boxes ?? []) this.boxMarks.cover(box, by);
    }
    if (frame) scene.frames.set(index, frame);
    else scene.frames.delete(index);
    if (before || frame) scene.changes.frames.add(index);
  }

  /** Return the slots of the recorded readers of all nodes that have ever been in a slot. @returns {number[]} */
  #readersOf(slot) {
    const { trace } = this;
    const nodes = [...trace.layout.slots[slot].nodes];
    const readers = [];
    for (const node of nodes) {
      for (const reader of trace.readers.of(node)) {
        if (trace.nodes.kind[reader] === "item") nodes.push(reader);
        else if (trace.slotOf[reader] >= 0) readers.push(trace.slotOf[reader]);
      }
    }
    return readers;
  }

  /** Mark the edges that the moment's declined decision, or all declined decisions of a whole stage, keep apart. */
  #decline(scene) {
    const { decision, whole, stage, position } = scene.moment;
    const { first, last } = whole ? (this.trace.recording.stages[stage] ?? NO_STAGE) : { first: decision, last: decision + 1 };
    const pairs = this.#apartBy(first, last, position);
    this.edgeStates.decline(pairs.map(([operand, reader]) => [operand.slot, reader.slot]));
    /** slots of the nodes that declined decisions keep apart @type {number[]} */ this.apart = [];
    for (const [operand, reader] of pairs) {
      for (const [end, far] of [[operand, reader], [reader, operand]]) {
        const mark = scene.slots.get(end.slot);
        if (mark) mark.apart = [...mark.apart, far.node];
        this.apart.push(end.slot);
      }
    }
  }

  /** Return the current ends at a position of the edges that decisions in a range keep apart, except edges inside a closed box. */
  #apartBy(first, last, position) {
    const { trace } = this;
    const { hiddenIn } = this.placement;
    const edges = trace.declinedEdges(first, last);
    const final = trace.resolver(position);
    const pairs = [];
    for (const [operand, reader] of edges) {
      const [from, to] = [trace.slotOf[trace.origin(final[operand])], trace.slotOf[trace.origin(final[reader])]];
      if (from < 0 || to < 0 || from === to || (hiddenIn[from] >= 0 && hiddenIn[from] === hiddenIn[to])) continue;
      pairs.push([{ node: operand, slot: from }, { node: reader, slot: to }]);
    }
    return pairs;
  }

  /** Return the nodes that were merged into a node. */
  duplicates(node, position) {
    const { recording, replay } = this.trace;
    const merged = new Set([node]);
    // Go backwards, because a node that others were merged into may have been merged itself later.
    for (const row of [...replay.merges].reverse()) {
      const [decision, old, kept] = recording.substitutions[row];
      if (decision < position && merged.has(kept)) merged.add(old);
    }
    merged.delete(node);
    return [...merged].reverse();
  }
}

/** Whether two moments are equal or adjacent with few changes. A whole stage, and the first kernel of an order or run, change all waiting nodes. */
function isStep(before, after) {
  if (before.hint !== after.hint || before.placed !== after.placed) return false;
  if (before.step === after.step && before.stage === after.stage) return before.position === after.position;
  return before.stage === after.stage && !before.whole && !after.whole && Math.abs(before.step - after.step) === 1 && before.kernel < 0 === after.kernel < 0;
}

const isGhost = (mark) => mark?.state === "gone" || mark?.state === "was";
const NO_STAGE = { first: 0, last: 0 };
