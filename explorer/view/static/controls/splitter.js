// A bar between two parts of a view, moved by the pointer or the arrow keys.

import { html, put } from "../dom.js";

/** px by which an arrow key moves the bar; four times as much with Shift. */
const STEP = 16;

/**
 * @typedef {{least: number, most: number}} Limits
 * @typedef {{name: string, axis: () => "x" | "y", grows: 1 | -1, limits: () => Limits, read: () => number, write: (px: number) => void, reset: () => void}} Bar
 *   axis: direction of motion; grows: 1 if the part grows with the coordinate, else −1; reset: action of a double click
 */

/** Movable border of a part. */
export class Splitter {
  /** @param {string} name its CSS class @param {Bar} bar */
  constructor(name, bar) {
    this.bar = bar;
    this.root = html("div", {
      class: `ex-splitter ${name}`, role: "separator", tabindex: 0, "aria-label": bar.name, title: `${bar.name}: drag, or press an arrow key; a double click resets`,
      pointerdown: (event) => this.#press(event), pointermove: (event) => this.#move(event), pointerup: () => (this.held = null), pointercancel: () => (this.held = null),
      keydown: (event) => this.#key(event), dblclick: () => (bar.reset(), this.tell()), focus: () => this.tell(),
    });
    /** @type {{at: number, size: number} | null} */ this.held = null;
  }

  /** Update its ARIA attributes. */
  tell() {
    const { least, most } = this.bar.limits();
    put(this.root, "aria-orientation", this.bar.axis() === "x" ? "vertical" : "horizontal");
    put(this.root, "aria-valuemin", Math.round(least));
    put(this.root, "aria-valuemax", Math.round(most));
    put(this.root, "aria-valuenow", Math.round(this.bar.read()));
  }

  #press(event) {
    if (event.button !== 0) return;
    this.held = { at: this.#along(event), size: this.bar.read() };
    this.root.setPointerCapture(event.pointerId);
    event.preventDefault();
    this.root.focus({ preventScroll: true });
  }

  #along(event) {
    return this.bar.axis() === "x" ? event.clientX : event.clientY;
  }

  #move(event) {
    if (this.held) this.#set(this.held.size + this.bar.grows * (this.#along(event) - this.held.at));
  }

  #set(size) {
    const { least, most } = this.bar.limits();
    this.bar.write(Math.round(Math.max(least, Math.min(most, size))));
    this.tell();
  }

  #key(event) {
    const [less, more] = this.bar.axis() === "x" ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    const { least, most } = this.bar.limits();
    const step = (event.shiftKey ? 4 : 1) * STEP * this.bar.grows;
    const sizes = { [less]: this.bar.read() - step, [more]: this.bar.read() + step, Home: least, End: most };
    if (sizes[event.key] === undefined) return;
    this.#set(sizes[event.key]);
    event.preventDefault();
    event.stopPropagation();
  }
}
