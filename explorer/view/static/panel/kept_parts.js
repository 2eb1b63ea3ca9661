// Parts of the panel that stay from one content to the next: parts that say the same are neither made nor laid out again.

import { explained, learned } from "./terms.js";
import { html, refill } from "../dom.js";

/** Elements by keys; a key names everything that its element says and does. */
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
