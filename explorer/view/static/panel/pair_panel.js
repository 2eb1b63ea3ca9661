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

  /** @param {number} one @param {number} other */
  content(one, other) {
    const { trace, decisionCard } = this.parts;
    const found = decisionsBetween(trace, one, other);
    const title = html("h4", {}, this.parts.link(one), " and ", this.parts.link(other));
    if (found.length) return [title, ...found.map((index) => decisionCard.card(index))];
    const sentences = accounts(trace, one, other);
    return [title, heading("no decision is about both"), html("ul", { class: "ex-accounts" }, ...sentences.map((text) => html("li", {}, text)))];
  }
}
