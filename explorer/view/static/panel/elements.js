// Elements of the panel: headings, tables, shortened lists, and elements reused when the content changes.

import { explained, learned } from "./term_tooltips.js";
import { html, refill } from "../dom.js";
import { grouped } from "../data/number_format.js";

/** Maximum number of rows of a list. */
export const LISTED = 40;

const [MANY, NAMED] = [8, 3];

/** Return the first `room` parts of a list, or all if only one would be left, since it needs no more space than the line "and 1 more". @template T @param {T[]} parts @param {number} room @returns {[T[], number]} the parts and the number left out */
export function fitting(parts, room) {
  return parts.length <= room + 1 ? [parts, 0] : [parts.slice(0, room), parts.length - room];
}

/**
 * Return a list of nodes; if many have equal texts, only the first few of these are shown.
 * @template T @param {T[]} nodes @param {(node: T) => string} reads @param {(node: T) => Element} row
 */
export function nodeList(nodes, reads, row) {
  return html("ul", { class: "ex-nodes" }, ...nodeRows(nodes, reads, row));
}

/** Return the rows of such a list. @template T @param {T[]} nodes @param {(node: T) => string} reads @param {(node: T) => Element} row @returns {Element[]} */
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

/** Return a table of names and values, with the additional CSS class `name`. @param {[string, string | Element][]} rows */
export function facts(rows, name = "") {
  const table = html("dl", { class: `ex-facts ${name}`.trim() });
  const known = new Set();
  for (const [title, value] of rows) table.append(html("dt", {}, ...explained(title, known)), html("dd", {}, value));
  return table;
}

/** Return a heading with explained terms. @param {string} text */
export const heading = (text) => html("h5", { "aria-level": 3 }, ...explained(text));

/** Return the last line of a shortened list. @param {number} count */
export const rest = (count) => count > LISTED && html("div", { class: "ex-soft" }, `${grouped(LISTED)} of ${grouped(count)} shown`);

/** Elements reused between contents. A key determines everything that its element shows and does, so equal elements are neither created nor laid out again. */
export class KeptParts {
  constructor() {
    /** @type {Map<string, Element>} */ this.before = new Map();
    /** @type {Map<string, Element>} */ this.now = new Map();
  }

  /** Begin a new content, and drop the elements that the previous content did not use. */
  begin() {
    this.before = this.now;
    this.now = new Map();
  }

  /** Return the element of a key from the previous content, else a new one. A key used again in one content gets another element. @template {Element} T @param {string} key @param {() => T} make @returns {T} */
  part(key, make) {
    while (this.now.has(key)) key += "+";
    /** @type {any} */ const part = this.before.get(key) ?? make();
    this.now.set(key, part);
    return part;
  }

  /** Return the element of a key with new children; children that it already has are not moved. @param {string} key @param {() => Element} make @param {(Node | string)[]} children */
  filled(key, make, children) {
    const part = this.part(key, make);
    refill(part, children);
    return part;
  }

  /** Return a heading with explained terms. @param {string} text */
  heading(text) {
    return this.part(`heading|${text}`, () => html("h5", { "aria-level": 3 }, ...explained(text)));
  }

  /** Return a table of names and values, with each term explained once. If a row has a function for its value, the value is only a key. @param {[string, string, (() => (Node | string)[])?][]} rows */
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
