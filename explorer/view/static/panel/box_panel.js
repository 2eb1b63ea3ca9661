// The panel of a box: its batches or layer, costs and contents.

import { costTable, elsewhere, insideTable } from "./cost_table.js";
import { layerParts, operatorParts } from "./layer_operator.js";
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
    const detail = [box.type || KINDS[box.kind] || box.kind, box.count > 1 && `×${grouped(box.count)}`].filter(Boolean).join(" · ");
    const parts = [html("h4", { "aria-level": 2 }, box.label), html("div", { class: "ex-sub" }, ...(box.type ? [detail] : explained(detail)))];
    const nodes = box.items.flatMap((item) => (item.slot === undefined ? [] : trace.layout.slots[item.slot].nodes));
    const standing = nodes.filter((node) => trace.exists(node, moment.position));
    parts.push(...box.batches.flatMap((decision) => [decisionCard.card(decision), decisionCard.facts(decision)]), decisionCard.note(...box.batches));
    parts.push(...layerParts(trace, box.layer), ...operatorParts(trace, box.operator), ...this.parts.gradients(-1, index));
    if (trace.isOperator(index)) parts.push(this.parts.source(nodes.find((node) => trace.nodes.source[node] >= 0) ?? nodes[0]));
    parts.push(heading("costs"), costTable(totals, costs[index], costs[outer], [], elsewhere(trace, costs, totals, index)), insideTable(trace, costs, index, totals, actions.box, (inner) => this.parts.summary.result(inner)));
    if (standing.length) parts.push(heading("contains"), this.parts.list(standing));
    if (box.parent >= 0) parts.push(...this.parts.cut.content(this.parts.inside(index)));
    return parts;
  }

  #outermost(box) {
    const { boxes } = this.parts.trace.layout;
    while (boxes[box].parent >= 0) box = boxes[box].parent;
    return box;
  }
}

/** Names of the kinds of boxes. */
const KINDS = { top: "the whole graph", body: "a function's body", file: "a part of the file, by the names of its operators", batch: "a batch", chain: "a folded chain", repeat: "repeated blocks", stack: "equal parallel parts", block: "a repeated block", part: "a part" };
