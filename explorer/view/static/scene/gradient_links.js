// Gradient links: nodes that compute the gradient of a node or box, values saved for it, and the reverse links.

import { html } from "../dom.js";
import { ENDS } from "./edge_values.js";
import { TRACED } from "./lineage.js";
import { grouped } from "../data/number_format.js";

/** Relation of a highlighted node → its label on screen. */
export const LIT = { backward: "gradient", saved: "saved", forward: "forward", found: "", inputs: "", outputs: "", writes: "", reads: "", line: "", code: "", asked: "?", free: "free", veiled: "gradient" };
export const SPOKEN = {
  backward: "part of the gradient of the selection",
  saved: "saved for the gradient of the selection",
  forward: "the selection is part of its gradient",
  found: "computes a known function with the selection",
  ...TRACED,
  ...ENDS,
  line: "recorded by the source line",
  code: "computed by the line of code",
  asked: "asked about",
  free: "its buffer is free",
  veiled: "part of the gradient",
};
const LISTED = 40;

/** Links between forward and gradient nodes. Nodes in one slot share their links. */
export class GradientLinks {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.rows = trace.recording.gradients ?? [];
    /** slot → gradient rows of its nodes */ this.of = new Map();
    /** slot → rows of the gradients that its nodes compute */ this.by = new Map();
    this.rows.forEach((row, index) => {
      enter(this.of, trace.slotOf[row.node], index);
      for (const node of row.backward) enter(this.by, trace.slotOf[node], index);
    });
  }

  /** Return the linked nodes of some slots in both directions at a position. @param {Iterable<number>} slots @param {number} position */
  find(slots, position) {
    const final = this.trace.resolver(position);
    const inside = new Set(slots);
    const related = { backward: new Set(), saved: new Set(), forward: new Set() };
    for (const slot of inside) {
      for (const index of this.of.get(slot) ?? []) {
        for (const node of this.rows[index].backward) related.backward.add(node);
        for (const node of this.saved(this.rows[index], final, position)) related.saved.add(node);
      }
      for (const index of this.by.get(slot) ?? []) related.forward.add(this.rows[index].node);
    }
    return related;
  }

  /** Return the values of the forward pass that a row's gradient reads at a position; at the last position these are `row.saved`. */
  saved(row, final, position) {
    const { trace, depth } = this;
    const { operands, kind } = trace.nodes;
    const read = new Set();
    for (const node of row.backward) {
      if (!trace.exists(node, position)) continue;
      for (const operand of operands[node]) {
        let value = final[operand];
        while (kind[value] === "item") value = final[operands[value][0]];
        if (depth.has(value) && depth.get(value) <= depth.get(row.node)) read.add(value);
      }
    }
    return read;
  }

  /** Order of differentiation of the nodes that have a gradient and of their inputs: 0 for forward nodes, 1 for nodes of first gradients. */
  get depth() {
    if (!this.known) {
      this.known = new Map();
      // Sort by node number, so that gradients of gradients come after the gradients they differentiate.
      for (const { node, backward } of [...this.rows].sort((a, b) => a.node - b.node)) {
        const depth = this.known.get(node) ?? 0;
        this.known.set(node, depth);
        for (const each of backward) this.known.set(each, depth + 1);
      }
      const forward = new Set(this.rows.map(({ node }) => node));
      // The set grows during the iteration, which adds all transitive operands.
      for (const node of forward) for (const operand of this.trace.nodes.operands[node]) forward.add(operand);
      for (const node of this.known.keys()) if (!forward.has(node)) this.known.delete(node);
      for (const node of forward) if (!this.known.has(node)) this.known.set(node, 0);
    }
    return this.known;
  }

  /** Return the slot of a selected node, or all slots inside a selected box. */
  slots(node, box) {
    const { trace } = this;
    if (node >= 0) return [trace.slotOf[trace.origin(node)]];
    if (box < 0) return [];
    const boxes = [box];
    const slots = [];
    for (const each of boxes) {
      for (const item of trace.layout.boxes[each].items) {
        if (item.slot === undefined) boxes.push(item.box);
        else slots.push(item.slot);
      }
    }
    return slots;
  }

  /** Return a map from slots to their relations to the selection: "backward", "saved" or "forward". @returns {Map<number, string>} */
  lit(node, box, position) {
    const lit = new Map();
    if (!this.rows.length) return lit;
    const chosen = new Set(this.slots(node, box));
    for (const [relation, nodes] of Object.entries(this.find(chosen, position))) {
      for (const each of nodes) {
        const slot = this.trace.slotOf[this.trace.origin(each)];
        // The selection itself is not highlighted, and a gradient node that is also saved is shown as a gradient.
        if (slot >= 0 && !chosen.has(slot) && !lit.has(slot)) lit.set(slot, relation);
      }
    }
    return lit;
  }

  /** Return the panel's lists for a selection. @param {(node: number) => Element} link */
  tell(node, box, link, position) {
    const { backward, saved, forward } = this.find(this.slots(node, box), position);
    const parts = [];
    const list = (title, nodes) => {
      const standing = [...new Set([...nodes].map((each) => this.trace.resolver(position)[each]))].filter((each) => this.trace.exists(each, position));
      if (!standing.length) return;
      const rows = standing.slice(0, LISTED).map((each) => html("li", {}, link(each)));
      const rest = standing.length > LISTED && html("li", { class: "ex-soft" }, `and ${grouped(standing.length - LISTED)} more`);
      parts.push(html("h5", { "aria-level": 3 }, title), html("ul", { class: "ex-nodes ex-twins" }, ...rows, rest));
    };
    list("its gradient is computed by", backward);
    list("saved for its gradient", saved);
    list("part of the gradient of", forward);
    return parts;
  }
}

function enter(table, key, value) {
  if (key < 0) return;
  if (!table.has(key)) table.set(key, []);
  table.get(key).push(value);
}
