// Differences between two graphs shown side by side, for each node at the current moments of both graphs.

import { grouped } from "../data/number_format.js";
import { unpack } from "../data/unpack.js";

/** @typedef {{kind: string, sign: string, word: string, many: string, meaning: string, rank: number}} Difference the colour only repeats the sign */

/** Differences of the nodes of both sides; side 0 is before, side 1 after. */
export class Differences {
  /** @param {any} data explorer/view/compare/pair_payload.py @param {import("../view.js").View[]} views */
  constructor(data, views) {
    const { partners, changed, words, bodies, differences, marks: sides } = unpack(data);
    this.views = views;
    this.partners = [partners, new Array(views[1].trace.count).fill(-1)];
    partners.forEach((other, node) => {
      if (other >= 0) this.partners[1][other] = node;
    });
    this.words = new Map(changed.map((node, index) => [node, words[index]]));
    this.bodies = [new Map(bodies), new Map(bodies.map(([before, after]) => [after, before]))];
    /** nodes before whose differences follow from other differences, shown as one row */ this.folded = new Set(data.folds.flatMap(([, nodes]) => nodes));
    /** @type {Map<string, Difference>} kind → difference, in the order of legends */ this.kinds = new Map(differences.map((row, rank) => [row.kind, { ...row, rank }]));
    /** @type {{absent: string, standing: Record<number, string>, planned: Record<number, string>}[]} */ this.sides = sides;
  }

  /** Return the counterpart of a node on the other side, or −1. @param {number} side @param {number} node */
  partner(side, node) {
    return this.partners[side][node] ?? -1;
  }

  /** Describe the changes of a node. @returns {string[]} */
  changes(side, node) {
    return this.words.get(side ? this.partner(1, node) : node) ?? [];
  }

  /** Return the counterpart of a graph on the other side, or −1. @param {number} side @param {number} body */
  body(side, body) {
    const { recording, nodes } = this.views[side].trace;
    // Bodies that share nodes have the number stored with the nodes.
    const shared = body && recording.bodies[body].outputs.length ? nodes.body[recording.bodies[body].outputs[0]] : body;
    return this.bodies[side].get(shared) ?? -1;
  }

  /** Return the current difference of a node from the other side. @returns {Difference | undefined} */
  of(side, node) {
    const [own, other] = [this.views[side], this.views[1 - side]];
    const { trace, now } = own;
    if (!this.bodies[side].has(trace.nodes.body[node])) return undefined;
    const { absent, standing, planned } = this.sides[side];
    const partner = this.partner(side, node);
    const stands = partner >= 0 && other.trace.exists(partner, other.now.position);
    return this.kinds.get(stands ? (UNPLANNED.has(now.phase) ? standing : planned)[node] : absent);
  }

  /** Return a map from slots to the differences of their nodes from the other side. @param {number} side @param {import("../scene/scene.js").Scene} scene @returns {Map<number, Difference>} */
  marks(side, scene) {
    const differences = new Map();
    for (const [slot, mark] of scene.slots) {
      const difference = mark.state === "gone" || mark.state === "was" ? undefined : this.of(side, mark.node);
      if (difference) differences.set(slot, difference);
    }
    return differences;
  }

  /** List the current differences in program order, each once; a kernel is listed at its first node. */
  list() {
    const rows = [];
    const seen = new Set();
    this.views.forEach(({ trace, scene, differs }, side) => {
      let last = -1;
      const nodes = [...scene.slots.values()].map(({ node }) => node).sort((a, b) => a - b);
      for (const node of nodes) {
        const partner = this.partner(side, node);
        if (partner >= 0) last = side ? partner : node;
        const difference = differs.get(trace.slotOf[node]);
        if (!difference || this.of(side, node) !== difference) continue;
        // A changed node exists on both sides and is listed for the first.
        if (side && STANDING.has(difference.kind)) continue;
        const kernel = difference.kind === "regrouped" ? trace.kernelOf[node] : -1;
        if (kernel >= 0) {
          if (seen.has(`${side}:${kernel}`) || (side && this.#isListedBefore(kernel))) continue;
          seen.add(`${side}:${kernel}`);
        }
        rows.push({ side, node, difference, order: side ? last + 0.5 : node });
      }
    });
    return rows.sort((a, b) => a.order - b.order);
  }

  /** Return the differences to step through. Differences that follow from others are omitted, unless there are no others. */
  stops() {
    const rows = this.list();
    const own = rows.filter(({ side, node, difference }) => difference.kind !== "rewired" || side || !this.folded.has(node));
    return own.length ? own : rows;
  }

  /** Whether a kernel of side 1 computes nodes of a kernel of side 0, where it is listed. */
  #isListedBefore(kernel) {
    const [before, after] = this.views;
    return after.trace.kernels[kernel].nodes.some((node) => {
      const partner = this.partner(1, node);
      return partner >= 0 && before.differs.get(before.trace.slotOf[partner])?.kind === "regrouped";
    });
  }
}

/** Kinds of differences whose nodes exist on both sides. */
const STANDING = new Set(["changed", "rewired"]);

/** Phases in which kernels are not chosen yet. */
const UNPLANNED = new Set(["record", "rewrite"]);

/** Count the differences of each kind, in the order of legends. @param {Difference[]} differences @returns {[Difference, number][]} */
export function tally(differences) {
  const counts = new Map();
  for (const difference of differences) counts.set(difference, (counts.get(difference) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a.rank - b.rank);
}

/** Return the counts as "−2 +1 Δ3", "" if there are none. @param {Difference[]} differences */
export function tallyText(differences) {
  return tally(differences).map(([{ sign }, count]) => sign + grouped(count)).join(" ");
}
