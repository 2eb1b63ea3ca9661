// Lists of the panel: their headings, and how much of a long one is shown.

import { html } from "../dom.js";
import { grouped } from "../data/number_format.js";

/** Rows of a list at most. */
export const LISTED = 40;

const [MANY, NAMED] = [8, 3];

/**
 * Nodes as a list; of many that read alike the first few stand for all.
 * @param {number[]} nodes @param {(node: number) => string} reads @param {(node: number) => Element} row
 */
export function nodeList(nodes, reads, row) {
  /** @type {Map<string, number[]>} */
  const alike = new Map();
  for (const node of nodes) {
    const read = reads(node);
    if (alike.has(read)) alike.get(read).push(node);
    else alike.set(read, [node]);
  }
  const more = (count, what) => html("li", { class: "ex-soft" }, `and ${grouped(count)} more${what}`);
  const rows = [...alike.values()].flatMap((same) => (same.length > MANY ? [...same.slice(0, NAMED).map(row), more(same.length - NAMED, " like these")] : same.map(row)));
  return html("ul", { class: "ex-nodes" }, ...rows.slice(0, LISTED), rows.length > LISTED && more(rows.length - LISTED, ""));
}

/** A table of names and values; of class `name` besides. @param {[string, string | Element][]} rows */
export function facts(rows, name = "") {
  const table = html("dl", { class: `ex-facts ${name}`.trim() });
  for (const [title, value] of rows) table.append(html("dt", {}, title), html("dd", {}, value));
  return table;
}

export const heading = (text) => html("h5", { "aria-level": 3 }, text);

/** The last line of a shortened list. @param {number} count */
export const rest = (count) => count > LISTED && html("div", { class: "ex-soft" }, `${grouped(LISTED)} of ${grouped(count)} shown`);
