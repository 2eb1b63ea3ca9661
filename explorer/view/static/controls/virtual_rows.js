// Rows of one height in a list that scrolls: those in sight, and the one that may have the focus, have elements.

import { html, put } from "../dom.js";

/** Rows above and below the visible ones that have elements, so that scrolling finds them there. */
const SPARE = 8;

/**
 * Draws rows by their keys.
 * @template {{key: number, level: number}} T
 */
export class VirtualRows {
  /**
   * @param {HTMLElement} root the element that scrolls
   * @param {number} high px of a row
   * @param {() => HTMLElement} make an empty row
   * @param {(element: HTMLElement, row: T) => void} fill
   */
  constructor(root, high, make, fill) {
    this.root = root;
    this.high = high;
    this.make = make;
    this.fill = fill;
    /** @type {T[]} */ this.rows = [];
    /** @type {Map<number, number>} key → place among the rows */ this.places = new Map();
    /** @type {Map<number, HTMLElement>} */ this.elements = new Map();
    this.held = -1;
    this.sight = { top: 0, high: 0 };
    this.list = html("div", { class: "ex-rows", role: "presentation" });
    root.append(this.list);
    root.addEventListener("scroll", () => this.#measure());
    this.resized = new ResizeObserver(() => this.#measure());
    this.resized.observe(root);
  }

  /** Show other rows, or the same ones again, the held one among them wherever it is. @param {T[]} rows @param {number} held a key */
  show(rows, held) {
    if (rows !== this.rows) {
      this.rows = rows;
      this.places = new Map(rows.map(({ key }, place) => [key, place]));
      put(this.list, "style", `height:${rows.length * this.high}px`);
    }
    this.held = held;
    this.#draw();
  }

  /** Scroll as little as needed to see a row. @param {number} key */
  reveal(key) {
    const place = this.places.get(key);
    if (place === undefined) return;
    this.#look();
    const { top, high } = this.sight;
    const [start, end] = [place * this.high, (place + 1) * this.high];
    if (start < top) this.root.scrollTop = start;
    else if (end > top + high) this.root.scrollTop = end - high;
    else return;
    this.#measure();
  }

  /** How many rows are in sight as a whole. */
  get page() {
    return Math.max(1, Math.floor(this.sight.high / this.high) - 1);
  }

  /** Leave the page. */
  end() {
    this.resized.disconnect();
  }

  /** Asked for when it may be another: a step alone asks for no layout of the page. */
  #look() {
    this.sight = { top: this.root.scrollTop, high: this.root.clientHeight };
  }

  #measure() {
    this.#look();
    this.#draw();
  }

  #draw() {
    const { rows, high, sight, elements } = this;
    const [first, last] = [Math.floor(sight.top / high) - SPARE, Math.ceil((sight.top + sight.high) / high) + SPARE];
    const places = [];
    const held = this.places.get(this.held) ?? -1;
    for (let place = Math.max(first, 0); place < Math.min(last, rows.length); place++) places.push(place);
    if (held >= 0 && held < first) places.unshift(held);
    else if (held >= last) places.push(held);
    const wanted = new Set(places.map((place) => rows[place].key));
    for (const [key, element] of elements) {
      if (wanted.has(key)) continue;
      element.remove();
      elements.delete(key);
    }
    // Rows that stay keep their order, so that no element is moved: one that is moved loses the focus.
    let next = this.list.firstElementChild;
    for (const place of places) {
      const row = rows[place];
      let element = elements.get(row.key);
      if (!element) elements.set(row.key, (element = this.make()));
      this.fill(element, row);
      put(element, "style", `top:${place * high}px;--ex-level:${row.level}`);
      if (element === next) next = element.nextElementSibling;
      else this.list.insertBefore(element, next);
    }
  }
}
