// Levels of two explorers beside each other: what stands over one canvas takes the room that it takes on the other side.

/** The parts over a canvas, whose lines are others on each side. */
const PARTS = [".ex-side-title", ".ex-top", ".ex-saying"];

/** Keeps both canvases at one height. */
export class Levels {
  /** @param {HTMLElement[]} sides */
  constructor(sides) {
    this.sides = sides;
    /** @type {HTMLElement[][]} the two of each part */ this.rows = [];
    this.frame = 0;
    this.resized = new ResizeObserver(() => this.#later());
  }

  /** Watch the parts that stand there now: views make them anew for another recording. */
  follow() {
    this.resized.disconnect();
    this.rows = PARTS.map((part) => this.sides.map((side) => side.querySelector(part)));
    for (const part of [...this.sides, ...this.rows.flat()]) this.resized.observe(part);
  }

  /** In a frame of its own: an observer that changes sizes would be told of its own changes. */
  #later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.#level();
    });
  }

  #level() {
    for (const part of this.rows.flat()) part.style.removeProperty("min-height");
    const [left, right] = this.sides.map((side) => side.offsetTop);
    // One below the other, each takes its own room.
    if (left !== right) return;
    const heights = this.rows.map(([first, second]) => Math.max(first.getBoundingClientRect().height, second.getBoundingClientRect().height));
    this.rows.forEach((row, place) => row.forEach((part) => part.style.setProperty("min-height", `${heights[place]}px`)));
  }

  /** Watch nothing any more. */
  end() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
