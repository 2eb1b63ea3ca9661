// Lists of the panel: their headings, and how much of a long one is shown.

import { explained } from "./terms.js";
import { html } from "../dom.js";
import { grouped } from "../data/number_format.js";

/** Rows of a list at most. */
export const LISTED = 40;

const [MANY, NAMED] = [8, 3];

/** The first parts of a list: one more than there is room for takes the place of the line that would say so. @template T @param {T[]} parts @param {number} room @returns {[T[], number]} and how many are left */
export function fitting(parts, room) {
  return parts.length <= room + 1 ? [parts, 0] : [parts.slice(0, room), parts.length - room];
}

/**
 * Nodes as a list; of many that read alike the first few stand for all.
 * @template T @param {T[]} nodes @param {(node: T) => string} reads @param {(node: T) => Element} row
 */
export function nodeList(nodes, reads, row) {
  return html("ul", { class: "ex-nodes" }, ...nodeRows(nodes, reads, row));
}

/** The rows of such a list. @template T @param {T[]} nodes @param {(node: T) => string} reads @param {(node: T) => Element} row @returns {Element[]} */
export function nodeRows(nodes, reads, row) {
  const alike = new Map();
  for (const node of nodes) {
    const read = reads(node);
    if (alike.has(read)) alike.get(read).push(node);
    else alike.set(read, [node]);
  }
  const more = (count, ending) => html("li", { class: "ex-soft" }, `and ${grouped(count)} more${ending}`);
  const rows = [...alike.values()].flatMap((same) => (same.length > MANY ? [...same.slice(0, NAMED).map(row), more(same.length - NAMED, " like these")] : same.map(row)));
  const [shown, left] = fitting(rows, LISTED);
  return left > 0 ? [...shown, more(left, "")] : shown;
}

/** A table of names and values; of class `name` besides. @param {[string, string | Element][]} rows */
export function facts(rows, name = "") {
  const table = html("dl", { class: `ex-facts ${name}`.trim() });
  const known = new Set();
  for (const [title, value] of rows) table.append(html("dt", {}, ...explained(title, known)), html("dd", {}, value));
  return table;
}

/** A heading, in which terms are explained. @param {string} text */
export const heading = (text) => html("h5", { "aria-level": 3 }, ...explained(text));

/** The last line of a shortened list. @param {number} count */
export const rest = (count) => count > LISTED && html("div", { class: "ex-soft" }, `${grouped(LISTED)} of ${grouped(count)} shown`);
