// Elements of the panel: headings, tables, lists and how much of a long one is shown; and those kept from one content to the next.

import { explained, learned } from "./term_tooltips.js";
import { html, refill } from "../dom.js";
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

/** Elements by keys, each of which names everything that its element says and does: those that say the same are neither made nor laid out again. */
export class KeptParts {
  constructor() {
    /** @type {Map<string, Element>} */ this.before = new Map();
    /** @type {Map<string, Element>} */ this.now = new Map();
  }

  /** Begin a content; the elements that the one before did not ask for are forgotten. */
  begin() {
    this.before = this.now;
    this.now = new Map();
  }

  /** The element of a key, of this content or the one before, or else a new one; a key that is asked for again has another element. @template {Element} T @param {string} key @param {() => T} make @returns {T} */
  part(key, make) {
    while (this.now.has(key)) key += "+";
    /** @type {any} */ const part = this.before.get(key) ?? make();
    this.now.set(key, part);
    return part;
  }

  /** The element of a key with other children: those that it has already stay. @param {string} key @param {() => Element} make @param {(Node | string)[]} children */
  filled(key, make, children) {
    const part = this.part(key, make);
    refill(part, children);
    return part;
  }

  /** A heading, in which terms are explained. @param {string} text */
  heading(text) {
    return this.part(`heading|${text}`, () => html("h5", { "aria-level": 3 }, ...explained(text)));
  }

  /** A table of names and values, in which terms are explained once; a value that is no text has a key and is made. @param {[string, string, (() => (Node | string)[])?][]} rows */
  facts(rows) {
    const known = new Set();
    const cells = rows.flatMap(([name, value, make]) => [this.#told("dt", name, known), make ? this.part(`made|${value}`, () => html("dd", {}, ...make())) : this.#told("dd", value, known)]);
    return this.filled("facts", () => html("dl", { class: "ex-facts" }), cells);
  }

  #told(tag, text, known) {
    const before = new Set(known);
    return this.part(`${tag}|${text}|${learned(text, known)}`, () => html(tag, {}, ...explained(text, before)));
  }
}
