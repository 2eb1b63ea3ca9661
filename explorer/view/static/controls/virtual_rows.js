// Rows of equal height in a scrolling list. Only visible rows and the focusable row have elements.

import { html, put } from "../dom.js";

/** Number of rows above and below the visible ones that have elements, so that they are ready for scrolling. */
const SPARE = 8;

/**
 * Drawing of rows with keys.
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
    /** @type {Map<number, number>} key → index of its row */ this.places = new Map();
    /** @type {Map<number, HTMLElement>} */ this.elements = new Map();
    this.held = -1;
    this.sight = { top: 0, high: 0 };
    this.list = html("div", { class: "ex-rows", role: "presentation" });
    root.append(this.list);
    root.addEventListener("scroll", () => this.#measure());
    this.resized = new ResizeObserver(() => this.#measure());
    this.resized.observe(root);
  }

  /** Show rows; the held row always has an element. @param {T[]} rows @param {number} held a key */
  show(rows, held) {
    if (rows !== this.rows) {
      this.rows = rows;
      this.places = new Map(rows.map(({ key }, place) => [key, place]));
      put(this.list, "style", `height:${rows.length * this.high}px`);
    }
    this.held = held;
    this.#draw();
  }

  /** Scroll by the minimum needed to show a row. @param {number} key */
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

  /** Number of completely visible rows. */
  get page() {
    return Math.max(1, Math.floor(this.sight.high / this.high) - 1);
  }

  /** Disconnect the observers. */
  end() {
    this.resized.disconnect();
  }

  /** Read the scroll position and height. Called only when they may have changed, so that a step causes no layout of the page. */
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
    // Remaining rows keep their order, so that no element is moved and loses the focus.
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
