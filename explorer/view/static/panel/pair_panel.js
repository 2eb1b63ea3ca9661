// The panel of two selected nodes: the decisions about both, or what became of each.

import { accounts, decisionsBetween } from "../data/pair_answer.js";
import { heading } from "./lists.js";
import { html } from "../dom.js";

/** Content of the panel for two nodes. */
export class PairPanel {
  /** @param {import("./panel_parts.js").PanelParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  /** @param {number} node @param {number} other */
  content(node, other) {
    const { trace, decisionCard } = this.parts;
    const decisions = decisionsBetween(trace, node, other);
    const title = html("h4", {}, this.parts.link(node), " and ", this.parts.link(other));
    if (decisions.length) return [title, ...decisions.map((index) => decisionCard.card(index))];
    const sentences = accounts(trace, node, other);
    return [title, heading("no decision is about both"), html("ul", { class: "ex-accounts" }, ...sentences.map((text) => html("li", {}, text)))];
  }
}
