// Scene at a moment: the node in each slot with its state, ghosts, edges, fused kernels, numbers, duplicates.

import { microsText } from "../data/number_format.js";
import { SlotStates } from "./slot_states.js";

/**
 * @typedef {{changed: number, active: boolean, empty: boolean, member: boolean, output: boolean,
 *   waits: number, done: number, waiting: boolean, micros: number, second: string,
 *   left: string, key: string}} BoxMark what a closed box hides; or a box that holds nothing now
 *   left: what it says where only rows of batches are left in it
 * @typedef {{group: any, index: number, slots: number[], boxes: number[], state: string, number: number, micros: number}} Frame
 *   boxes: the closed operators that hide members
 * @typedef {{moment: any, slots: Map<number, import("./slot_states.js").SlotState>, boxes: Map<number, BoxMark>, frames: Frame[],
 *   edges: Map<string, {box: number, from: number, to: number, state: string}>,
 *   moves: {before: number[][], after: number[][]}[], attention: number[]}} Scene
 */

/** Builds the scenes of one trace. */
export class SceneBuilder {
  /** @param {import("../data/recording.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("./compose.js").Paths} paths */
  constructor(trace, timeline, paths) {
    this.trace = trace;
    this.paths = paths;
    this.slotStates = new SlotStates(trace, timeline);
    this.cut = new Map();
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {import("./compose.js").Placement} placement @returns {Scene} */
  scene(moment, placement) {
    const { trace } = this;
    const before = moment.decision >= 0 ? Int32Array.from(trace.resolver(moment.position - 1)) : null;
    const final = trace.resolver(moment.position);
    const scene = { moment, slots: new Map(), boxes: new Map(), frames: [], edges: new Map(), moves: [], attention: [] };
    const decision = trace.decisions[moment.decision];
    const touched = new Set(decision ? [...decision.subjects, ...decision.produced] : []);
    const frames = this.#frames(moment, placement);
    const ready = new Set(moment.phase === "order" ? (trace.kernels[moment.kernel]?.ready_candidates ?? []) : []);
    const outputs = new Set([...trace.roots].map((root) => trace.slotOf[trace.origin(final[root])]));
    const used = this.#used(moment.position, final);
    const copies = this.#copies(moment.position);
    const members = new Set(frames.flatMap((frame) => frame.slots));
    trace.layout.slots.forEach((_, slot) => {
      if (placement.hiddenIn[slot] === -2) return;
      const mark = this.slotStates.state(slot, moment, { decision, touched, ready, used, outputs, copies, members });
      if (mark === null) return;
      scene.slots.set(slot, mark);
      if (this.slotStates.needsAttention(mark, moment)) scene.attention.push(slot);
    });
    this.#boxes(scene, placement, new Set(frames.flatMap((frame) => frame.boxes)));
    this.#edges(scene, placement, before, final);
    this.#declined(scene, placement, final);
    scene.frames = frames.map((frame) => this.#state(frame, moment));
    return scene;
  }

  #boxes(scene, placement, covered) {
    const attention = new Set(scene.attention);
    const inhabited = new Set();
    for (const [slot, mark] of scene.slots) {
      for (let around = this.trace.boxOf[slot]; around >= 0 && !inhabited.has(around); around = this.trace.layout.boxes[around].parent) {
        inhabited.add(around);
      }
      const box = placement.hiddenIn[slot];
      if (box < 0) continue;
      const found = scene.boxes.get(box) ?? { ...NOTHING, member: covered.has(box) };
      if (attention.has(slot)) found.changed++;
      found.active ||= mark.flags.includes("current");
      found.output ||= mark.flags.includes("output");
      if (mark.flags.includes("waiting")) found.waits++;
      else if (this.trace.kernelOf[mark.node] >= 0) found.done++;
      found.micros += mark.micros;
      scene.boxes.set(box, found);
    }
    for (const box of placement.boxes.keys()) {
      if (!inhabited.has(box)) scene.boxes.set(box, { ...NOTHING, empty: true });
    }
    for (const [box, mark] of scene.boxes) {
      mark.left = mark.empty ? "" : this.trace.rowText(box, scene.moment.position);
      mark.waiting = mark.waits > 0 && mark.done === 0;
      mark.second = mark.micros && !mark.member ? microsText(mark.micros) : "";
      mark.key = `${mark.changed}|${mark.active}|${mark.empty}|${mark.member}|${mark.output}|${mark.waiting}|${mark.second}|${mark.left}`;
    }
  }

  /** Slots with a reader. */
  #used(position, final) {
    const { trace } = this;
    const { operands } = trace.nodes;
    const used = new Set();
    for (let node = 0; node < trace.count; node++) {
      if (!trace.exists(node, position)) continue;
      for (const operand of operands[node]) used.add(trace.slotOf[trace.origin(final[operand])]);
    }
    return used;
  }

  /** Node → number of equal nodes that it stands for, including itself, where others were merged into it. */
  #copies(position) {
    const { recording, replay } = this.trace;
    const copies = new Map();
    for (const row of replay.merges) {
      const [decision, old, kept] = recording.substitutions[row];
      if (decision < position) copies.set(kept, (copies.get(kept) ?? 1) + (copies.get(old) ?? 1));
    }
    return copies;
  }

  /** The nodes that were merged into one. */
  duplicates(node, position) {
    const { recording, replay } = this.trace;
    const merged = new Set([node]);
    // From the last back: a node that took others in may have been merged itself later.
    for (const row of [...replay.merges].reverse()) {
      const [decision, old, kept] = recording.substitutions[row];
      if (decision < position && merged.has(kept)) merged.add(old);
    }
    merged.delete(node);
    return [...merged].reverse();
  }

  #edges(scene, placement, before, final) {
    const { trace } = this;
    const { operands, born } = trace.nodes;
    for (const [slot, mark] of scene.slots) {
      const isGhost = mark.state === "gone" || mark.state === "was";
      for (const operand of operands[mark.node]) {
        const producer = trace.slotOf[trace.origin(final[operand])];
        if (producer < 0 || producer === slot) continue;
        if (isGhost) {
          this.#draw(scene, placement, producer, slot, mark.state);
          continue;
        }
        // What stood where a ghost stands now was read here.
        const was = trace.slotOf[trace.origin(operand)];
        const ghost = was === producer ? undefined : scene.slots.get(was);
        if (ghost?.state === "gone" || ghost?.state === "was") this.#draw(scene, placement, was, slot, ghost.state);
        if (before && before[operand] !== final[operand] && born[mark.node] < scene.moment.decision) {
          this.#move(scene, placement, trace.slotOf[trace.origin(before[operand])], producer, slot);
        } else this.#draw(scene, placement, producer, slot, mark.state === "new" ? "new" : "plain");
      }
    }
  }

  /** Mark the edges that a declined decision keeps apart: those of the moment's decision, or of all of a stage as a whole. */
  #declined(scene, placement, final) {
    const { trace } = this;
    const { decision, whole, stage } = scene.moment;
    const { first, last } = whole ? (trace.recording.stages[stage] ?? NO_STAGE) : { first: decision, last: decision + 1 };
    for (const [operand, reader] of trace.declinedEdges(first, last)) {
      const ends = [operand, reader].map((node) => trace.slotOf[trace.origin(final[node])]);
      if (ends.includes(-1) || ends[0] === ends[1]) continue;
      this.#draw(scene, placement, ends[0], ends[1], "declined", true);
      ends.forEach((slot, end) => {
        const mark = scene.slots.get(slot);
        if (mark) mark.apart = [...mark.apart, [operand, reader][1 - end]];
      });
    }
  }

  #move(scene, placement, from, to, slot) {
    if (from === to || from < 0) return this.#draw(scene, placement, to, slot, "plain");
    this.#draw(scene, placement, to, slot, "moved");
    scene.moves.push({ before: this.#cut(from, slot), after: this.#cut(to, slot) });
  }

  #cut(producer, consumer) {
    const key = producer * this.trace.layout.slots.length + consumer;
    let found = this.cut.get(key);
    // With their key: a step asks for every edge's again.
    if (!found) this.cut.set(key, (found = this.paths.segments(producer, consumer).map((segment) => [...segment, segment.join(":")])));
    return found;
  }

  #draw(scene, placement, producer, consumer, state, onlyDrawn = false) {
    const hidden = placement.hiddenIn[consumer];
    // Edges inside one closed box are not drawn.
    if (hidden >= 0 && placement.hiddenIn[producer] === hidden) return;
    for (const [box, from, to, key] of this.#cut(producer, consumer)) {
      if (!placement.composed.has(box)) continue;
      const known = scene.edges.get(key);
      if (onlyDrawn && !known) continue;
      if (!known || RANK[state] > RANK[known.state]) scene.edges.set(key, { box, from, to, state });
    }
  }

  /** Fused kernels and batches. */
  #frames(moment, placement) {
    const { trace } = this;
    const frames = [];
    trace.recording.groups.forEach((group, index) => {
      if (group.decision >= moment.position || moment.position > trace.replay.outlined[index]) return;
      const slots = group.members.filter((node) => trace.exists(node, moment.position)).map((node) => trace.slotOf[node]);
      if (slots.length < 2) return;
      const shown = slots.filter((slot) => placement.hiddenIn[slot] === -1);
      const hiding = new Set(slots.map((slot) => placement.hiddenIn[slot]).filter((box) => box !== -1));
      const boxes = [...hiding].filter((box) => box >= 0 && trace.isOperator(box));
      // A kernel that is inside one closed operator is not outlined: the box is its outline.
      if (!shown.length && (!boxes.length || hiding.size < 2)) return;
      frames.push({ group, index, slots: shown, boxes, state: "", number: 0, micros: 0 });
    });
    return frames;
  }

  #state(frame, moment) {
    const { trace } = this;
    const kernel = trace.kernelOf[frame.group.members[frame.group.members.length - 1]];
    const isKernel = frame.group.kind === "kernel" && kernel >= 0;
    const numbered = isKernel && (moment.phase === "format" || moment.phase === "memory" || moment.phase === "run" || (moment.phase === "order" && (moment.whole || kernel <= moment.kernel)));
    const waits = isKernel && moment.kernel >= 0 && this.#place(kernel, moment) > this.#place(moment.kernel, moment);
    frame.state = frame.group.decision === moment.decision ? "new" : isKernel && kernel === moment.kernel ? "current" : waits ? "waiting" : "plain";
    frame.number = numbered ? kernel + 1 : 0;
    const step = isKernel && moment.phase === "run" && (moment.whole || moment.kernel >= 0) && !waits ? trace.stepOf.get(kernel) : undefined;
    frame.micros = step === undefined ? 0 : trace.steps[step].micros;
    return frame;
  }

  /** The number of a kernel in the order, or in the run. */
  #place(kernel, moment) {
    return moment.phase === "run" ? (this.trace.stepOf.get(kernel) ?? -1) : kernel;
  }
}

const NOTHING = { changed: 0, active: false, empty: false, member: false, output: false, waits: 0, done: 0, waiting: false, micros: 0, second: "", left: "", key: "" };
const RANK = { was: 0, gone: 1, plain: 2, new: 3, moved: 4, declined: 5 };
const NO_STAGE = { first: 0, last: 0 };
