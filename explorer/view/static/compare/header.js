// Header of two explorers: synchronisation, differences and the counts of both.

import { iconButton } from "../controls/toolbar.js";
import { tally } from "./differences.js";
import { html, put, say } from "../dom.js";
import { LISTED } from "../panel/elements.js";
import { grouped } from "../data/number_format.js";

const TIED = { nodes: "by nodes", steps: "by steps", off: "not at all" };
const SIDES = ["before", "after"];

/** Header of a pair. */
export class PairHead {
  /** @param {import("./pair.js").Pair} pair @param {any} comparison */
  constructor(pair, comparison) {
    this.pair = pair;
    this.titles = SIDES.map((side, index) => html("div", { class: "ex-side-title", title: comparison.titles[index] }, html("b", {}, side), " ", comparison.titles[index], ...options(comparison, index)));
    this.legend = html("div", { class: "ex-differences", role: "status", "aria-live": "polite" });
    this.missing = html("span", { class: "ex-missing", role: "status" });
    this.place = html("span", { class: "ex-place" });
    const choices = Object.entries(TIED).map(([tied, text]) => html("option", { value: tied, selected: tied === pair.tied }, text));
    this.choice = html("select", { class: "ex-tie", title: "synchronise pan, zoom, steps and selections (t)", "aria-label": "synchronise both explorers", change: () => pair.tieBy(this.choice.value) }, ...choices);
    const bar = html(
      "div",
      { class: "ex-pair-bar" },
      this.legend,
      this.missing,
      html("div", { class: "ex-tools", role: "toolbar", "aria-label": "differences" }, this.place, iconButton("up", "the previous difference (D)", () => pair.walk(-1)), iconButton("down", "the next difference (d)", () => pair.walk(1))),
      html("label", { class: "ex-soft" }, "tied ", this.choice),
    );
    this.table = html("div", { class: "ex-counted", tabindex: 0, role: "region", "aria-label": "counts of both" });
    this.folds = html("div", { class: "ex-folds" });
    this.operators = html("details", { class: "ex-operators" });
    this.root = html("div", { class: "ex-pair-head" }, bar, this.operators, this.folds, this.table);
    this.frame = 0;
  }

  /** Show the counts of both. */
  count(comparison) {
    this.table.replaceChildren(table(comparison.counts));
    const [operators, ...lines] = comparison.operators;
    this.operators.hidden = !operators;
    this.operators.replaceChildren(html("summary", {}, operators ?? ""), html("ul", {}, ...lines.map((line) => html("li", {}, line))));
    this.folds.replaceChildren(...comparison.folds.map((fold) => this.#fold(fold)));
  }

  /** Return an expandable row that counts and lists differences that follow from others. @param {[string, number[], string[]]} fold */
  #fold([title, nodes, rows]) {
    const link = (node, text) => html("li", {}, html("button", { class: "ex-link", type: "button", click: () => this.pair.views[0].selection.select(node, true) }, text));
    const more = nodes.length > LISTED && html("li", { class: "ex-soft" }, `and ${grouped(nodes.length - LISTED)} more`);
    return html("details", { class: "ex-fold" }, html("summary", {}, title), html("ul", {}, ...nodes.slice(0, LISTED).map((node, place) => link(node, rows[place])), more));
  }

  /** Update the legend in the next frame, after everything is shown. */
  later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.#tell();
    });
  }

  #tell() {
    const rows = this.pair.differences?.list() ?? [];
    const stops = this.pair.differences?.stops() ?? [];
    const counts = tally(rows.map(({ difference }) => difference));
    const text = counts.map(([{ kind }, count]) => `${kind} ${count}`).join();
    if (text === this.text) return;
    this.text = text;
    this.pair.place = -1;
    say(this.place, stops.length ? `${grouped(stops.length)} differ` : "");
    const labels = counts.map(([{ kind, sign, many, meaning }, count]) => html("span", { class: `ex-difference ex-differs-${kind}`, title: meaning }, `${sign} ${grouped(count)} ${many}`));
    this.legend.replaceChildren(...(labels.length ? labels : [html("span", { class: "ex-soft" }, "no difference at this step")]));
  }

  /** Show the position of the current difference. */
  walked(place, stops) {
    say(this.place, `${grouped(place + 1)} of ${grouped(stops.length)}`);
  }

  /** Report that a side lacks a node, and the nearest node that both sides have; "" for none. @param {number} side @param {string} name @param {string} near */
  miss(side, name, near) {
    const shown = near ? `, which shows its nearest neighbour in both: ${near}` : "";
    say(this.missing, name && `${name} is not in “${SIDES[side]}”${shown}`);
  }

  /** Show how both views are synchronised. @param {string} tied */
  tie(tied) {
    this.choice.value = tied;
  }

  /** Cancel the requested frame. */
  end() {
    cancelAnimationFrame(this.frame);
  }
}

function options(comparison, side) {
  const rows = comparison.options.filter((row) => row[side + 1] !== "");
  return rows.map((row) => html("span", { class: "ex-soft" }, ` · ${row[0]} `, html("code", {}, row[side + 1])));
}

/** Return a table of the counts at the end of both plans, one column per count. On a narrow page CSS shows them as rows, which removes the table's implicit roles, so they are explicit. */
function table(counts) {
  const cell = { role: "cell" };
  const row = (name, place) => html("tr", { role: "row" }, html("th", { scope: "row", role: "rowheader" }, name), ...counts.map((count) => html("td", cell, ...unbroken(count[place]))));
  const head = html("tr", { role: "row" }, html("td", cell), ...counts.map(([name]) => html("th", { scope: "col", role: "columnheader" }, name)));
  const isApart = counts.some(([, , , difference]) => difference);
  const rows = ["before", "after", ...(isApart ? ["difference"] : [])].map((name, place) => row(name, place + 1));
  if (isApart) put(rows[2], "class", "ex-apart");
  const caption = html("caption", {}, "at the end of both plans, whichever step is shown");
  const whole = html("table", { role: "table" }, caption, html("thead", { role: "rowgroup" }, head), html("tbody", { role: "rowgroup" }, ...rows));
  whole.style.setProperty("--ex-counts", String(counts.length + 1));
  return whole;
}

/** Split "+512 B (+197 %)" into two parts without line breaks inside; return words unchanged. @param {string} count */
function unbroken(count) {
  const [, number, share] = /^(.+) (\(.+\))$/.exec(count) ?? [];
  const tied = (part) => html("span", { class: "ex-tied" }, part);
  return share ? [tied(number), " ", tied(share)] : [count];
}
