// The panel of two selected nodes or boxes: the decisions about both, or the fate of each.

import { edgesBetween, pairAnswer } from "../data/pair_answer.js";
import { fitting, heading } from "./elements.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";

const SENTENCES = 8;
/** @typedef {{node: number, box: number}} End a node, or a box if the node is −1 */

/** Panel content for two nodes or boxes. */
export class PairPanel {
  /** @param {import("./panel_parts.js").PanelParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  /** @param {End} first @param {End} second */
  content(first, second) {
    const { trace, decisionCard } = this.parts;
    const [nodes, others] = [this.#nodes(first), this.#nodes(second)];
    const { cards, sentences: answers, further, isCommon } = pairAnswer(trace, nodes, others);
    const title = html("h4", {}, this.#link(first), " and ", this.#link(second));
    const [sentences, left] = fitting(answers, SENTENCES);
    const list = answers.length > 0 && html("ul", { class: "ex-accounts" }, ...sentences.map((text) => html("li", {}, text)), left > 0 && html("li", { class: "ex-soft" }, `and ${grouped(left)} more`));
    const shown = (indices) => indices.map((index) => decisionCard.card(index));
    const none = isCommon ? [] : [heading("no decision is about both")];
    const folded = further.length ? [html("details", { class: "ex-fold" }, html("summary", {}, `other decisions: ${grouped(further.length)}`), ...shown(further))] : [];
    const edges = nodes.length > 1 || others.length > 1 ? cards.flatMap((index) => [...this.#edges(index, nodes, others), decisionCard.card(index)]) : shown(cards);
    return [title, ...edges, ...none, ...(list ? [list] : []), ...folded, ...this.parts.cut.content(nodes, others)];
  }

  /** Return lines with the edges between two boxes that a decision did not fuse. @param {number} index @param {number[]} nodes @param {number[]} others */
  #edges(index, nodes, others) {
    const { trace } = this.parts;
    const end = (node) => this.parts.link(node, trace.whereText(node));
    return edgesBetween(trace, index, nodes, others).map(([operand, reader]) => html("div", { class: "ex-soft ex-edge-ends" }, end(operand), " → ", end(reader)));
  }

  #link({ node, box }) {
    if (node >= 0) return this.parts.link(node);
    return html("button", { class: "ex-link", type: "button", click: () => this.parts.actions.box(box) }, this.parts.trace.layout.boxes[box].label);
  }

  /** Return the node, or the recorded operations inside the box. @returns {number[]} */
  #nodes({ node, box }) {
    if (node >= 0) return [node];
    const { kind } = this.parts.trace.nodes;
    return this.parts.inside(box).filter((each) => kind[each] === "operation" || kind[each] === "call");
  }
}
