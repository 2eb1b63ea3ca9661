// Differences between two graphs shown side by side, for each node at the current moments of both.

import { unpack } from "../data/unpack.js";

/** @typedef {"added" | "removed" | "changed" | "regrouped"} Difference */

/** Sign, name and meaning of each difference; colours only repeat them. */
export const SIGNS = { removed: "−", added: "+", changed: "Δ", regrouped: "≠" };
export const WORDS = { removed: "removed", added: "added", changed: "changed", regrouped: "other kernel" };
export const MEANINGS = {
  removed: "only in the graph before",
  added: "only in the graph after",
  changed: "has another operation, type or operand after",
  regrouped: "is computed in another kernel",
};

/** Classifies the nodes of both sides; side 0 is before, side 1 after. */
export class Differences {
  /** @param {any} data explorer/view/compare/pair_payload.py @param {import("../view.js").View[]} views */
  constructor(data, views) {
    const { partners, changed, words, bodies, kernels } = unpack(data);
    this.views = views;
    this.partners = [partners, new Array(views[1].trace.count).fill(-1)];
    partners.forEach((other, node) => {
      if (other >= 0) this.partners[1][other] = node;
    });
    this.words = new Map(changed.map((node, index) => [node, words[index]]));
    this.bodies = [new Map(bodies), new Map(bodies.map(([one, other]) => [other, one]))];
    this.regrouped = kernels.map((numbers) => new Set(numbers));
  }

  /** The counterpart of a node on the other side, or −1. @param {number} side @param {number} node */
  partner(side, node) {
    return this.partners[side][node] ?? -1;
  }

  /** The changes of a node, in words. @returns {string[]} */
  changes(side, node) {
    return this.words.get(side ? this.partner(1, node) : node) ?? [];
  }

  /** The counterpart of a graph on the other side, or −1. @param {number} side @param {number} body */
  body(side, body) {
    const { recording, nodes } = this.views[side].trace;
    // Bodies that share their nodes go by the number that the nodes have.
    const shared = body && recording.bodies[body].outputs.length ? nodes.body[recording.bodies[body].outputs[0]] : body;
    return this.bodies[side].get(shared) ?? -1;
  }

  /** The difference of a node from the other side now; "" if there is none. @returns {Difference | ""} */
  of(side, node) {
    const [own, other] = [this.views[side], this.views[1 - side]];
    const { trace, now } = own;
    if (!this.bodies[side].has(trace.nodes.body[node])) return "";
    const partner = this.partner(side, node);
    if (partner < 0 || !other.trace.exists(partner, other.now.position)) return side ? "added" : "removed";
    if (this.changes(side, node).length) return "changed";
    return SCHEDULED.has(now.phase) && this.regrouped[side].has(trace.kernelOf[node]) ? "regrouped" : "";
  }

  /** Slot → the difference of its node from the other side. @param {number} side @param {import("../scene/scene.js").Scene} scene @returns {Map<number, Difference>} */
  marks(side, scene) {
    const found = new Map();
    for (const [slot, mark] of scene.slots) {
      const kind = mark.state === "gone" || mark.state === "was" ? "" : this.of(side, mark.node);
      if (kind) found.set(slot, kind);
    }
    return found;
  }

  /** All current differences in program order, each once; a kernel is listed by its first node. */
  list() {
    const rows = [];
    const seen = new Set();
    this.views.forEach(({ trace, scene, differs }, side) => {
      let last = -1;
      const nodes = [...scene.slots.values()].map(({ node }) => node).sort((one, other) => one - other);
      for (const node of nodes) {
        const partner = this.partner(side, node);
        if (partner >= 0) last = side ? partner : node;
        const kind = differs.get(trace.slotOf[node]);
        if (!kind || this.of(side, node) !== kind) continue;
        if (side && kind === "changed") continue;
        const kernel = kind === "regrouped" ? trace.kernelOf[node] : -1;
        if (kernel >= 0) {
          if (seen.has(`${side}:${kernel}`) || (side && this.#toldBefore(kernel))) continue;
          seen.add(`${side}:${kernel}`);
        }
        rows.push({ side, node, kind, order: side ? last + 0.5 : node });
      }
    });
    return rows.sort((one, other) => one.order - other.order);
  }

  /** Whether a kernel after computes nodes of a kernel before, which is listed there. */
  #toldBefore(kernel) {
    const [before, after] = this.views;
    return after.trace.kernels[kernel].nodes.some((node) => {
      const partner = this.partner(1, node);
      return partner >= 0 && before.differs.get(before.trace.slotOf[partner]) === "regrouped";
    });
  }
}

const SCHEDULED = new Set(["order", "format", "memory", "run"]);

/** How many there are of each kind. @param {Iterable<Difference>} kinds @returns {Record<Difference, number>} */
export function tally(kinds) {
  const counts = { removed: 0, added: 0, changed: 0, regrouped: 0 };
  for (const kind of kinds) counts[kind]++;
  return counts;
}

/** "−2 +1 Δ3", "" where there are none. */
export function tallyText(counts) {
  return Object.entries(SIGNS).flatMap(([kind, sign]) => (counts[kind] ? [sign + counts[kind]] : [])).join(" ");
}
