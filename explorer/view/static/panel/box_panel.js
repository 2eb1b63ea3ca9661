// The panel of a box: its batches or layer, costs and contents.

import { costTable, elsewhere, insideTable } from "./cost_table.js";
import { layerParts, operatorParts, typeParts } from "./layer_operator.js";
import { operandParts } from "./operand_rows.js";
import { heading } from "./elements.js";
import { explained } from "./term_tooltips.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";

/** Panel content for a selected box. */
export class BoxPanel {
  /** @param {import("./panel_parts.js").PanelParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  /** @param {number} index */
  content(index) {
    const { trace, totals, moment, actions, decisionCard } = this.parts;
    const box = trace.layout.boxes[index];
    const costs = totals.at(moment.position);
    const outer = this.#outermost(index);
    const [generated] = box.title === box.label ? [""] : box.label.split(" / ").slice(-1);
    const detail = [generated || box.type || KINDS[box.kind] || box.kind, box.count > 1 && `×${grouped(box.count)}`].filter(Boolean).join(" · ");
    const parts = [html("h4", { "aria-level": 2 }, box.title), html("div", { class: "ex-sub" }, ...(box.type ? [detail] : explained(detail)))];
    const nodes = box.items.flatMap((item) => (item.slot === undefined ? [] : trace.layout.slots[item.slot].nodes));
    const standing = nodes.filter((node) => trace.exists(node, moment.position));
    parts.push(...box.batches.flatMap((decision) => [decisionCard.card(decision), decisionCard.facts(decision)]), decisionCard.note(...box.batches));
    parts.push(...layerParts(trace, box.layer), ...typeParts(trace, box.operator, this.parts.kept), ...operandParts(this.parts, box.operator), ...operatorParts(trace, box.operator), ...this.parts.gradients(-1, index));
    if (box.parent >= 0) parts.push(...this.#neighbours(index));
    if (trace.isOperator(index)) parts.push(this.parts.source(nodes.find((node) => trace.nodes.source[node] >= 0) ?? nodes[0]));
    // Before a schedule exists, estimated times are those of the final plan's kernels, so inner boxes are compared by their flops.
    const isAhead = (moment.phase === "record" || moment.phase === "rewrite") && totals.clock === "estimated";
    parts.push(heading("costs"), costTable(totals, costs[index], costs[outer], [], elsewhere(trace, costs, totals, index), isAhead), insideTable(trace, costs, index, totals, actions.box, (inner) => this.parts.summary.result(inner), !isAhead));
    if (standing.length) parts.push(heading("contains"), this.parts.list(standing));
    if (box.parent >= 0) parts.push(...this.parts.cut.content(this.parts.inside(index)));
    return parts;
  }

  /** Return the nodes outside a box that it reads, and those that read it, with their types. @param {number} index */
  #neighbours(index) {
    const { trace, moment } = this.parts;
    const { operands, kind } = trace.nodes;
    const inside = new Set(trace.nodesIn(index));
    const final = trace.resolver(moment.position);
    const [reads, readers] = [new Set(), new Set()];
    for (let node = 0; node < trace.count; node++) {
      if (!trace.exists(node, moment.position)) continue;
      for (const operand of operands[node].map((each) => final[each])) {
        if (inside.has(node) && !inside.has(operand) && kind[operand] !== "constant") reads.add(operand);
        if (!inside.has(node) && inside.has(operand)) readers.add(node);
      }
    }
    const list = (title, nodes) => (nodes.size ? [heading(title), this.parts.list([...nodes], (node) => trace.shortType(node))] : []);
    return [...list("reads", reads), ...list(`read by ${grouped(readers.size)}`, readers)];
  }

  #outermost(box) {
    const { boxes } = this.parts.trace.layout;
    while (boxes[box].parent >= 0) box = boxes[box].parent;
    return box;
  }
}

/** Names of the kinds of boxes. */
const KINDS = { top: "the whole graph", body: "a function's body", file: "a part of the file, by the names of its operators", batch: "a batch", chain: "a folded chain", repeat: "repeated blocks", stack: "equal parallel parts", block: "a repeated block", part: "a part" };
