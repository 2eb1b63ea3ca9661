// The corner of the canvas in which the small map stands: one where it covers no node.

import { standing } from "./beginning.js";

/** px between the map and the border of the canvas, and ms for which the camera rests before the map changes its corner. */
const [MARGIN, REST] = [10, 250];
/** @typedef {[boolean, boolean]} Corner whether it is at the left, and at the top */
/** @type {Corner[]} the preferred ones first */
const CORNERS = [[false, false], [false, true], [true, true], [true, false]];

/** Moves the map where it covers something, and would cover nothing in another corner. */
export class MinimapCorner {
  /** @param {HTMLElement} root the map @param {import("./camera.js").Camera} camera */
  constructor(root, camera) {
    this.root = root;
    this.camera = camera;
    /** @type {Corner} */ this.corner = CORNERS[0];
    /** @type {HTMLElement[]} what else lies over the canvas */ this.others = [];
    this.timer = 0;
  }

  /** Look for a corner once the camera rests. @param {() => {placement: any, scene: any}} shown */
  later(shown) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#choose(shown()), REST);
  }

  /** Look no more. */
  end() {
    clearTimeout(this.timer);
  }

  #choose({ placement, scene }) {
    const { root } = this;
    if (!root.isConnected || root.classList.contains("ex-unseen") || root.matches(":active")) return;
    const { x, y, scale } = this.camera;
    const items = standing(placement, scene).map(([left, top, wide, high]) => [x + left * scale, y + top * scale, x + (left + wide) * scale, y + (top + high) * scale]);
    const isFree = (corner) => !this.#covers(corner, items);
    if (isFree(this.corner)) return;
    const others = this.others.filter((part) => part.offsetWidth > 0).map((part) => [part.offsetLeft, part.offsetTop, part.offsetLeft + part.offsetWidth, part.offsetTop + part.offsetHeight]);
    const free = CORNERS.find((corner) => isFree(corner) && !this.#covers(corner, others));
    if (!free) return;
    this.corner = free;
    root.classList.toggle("ex-leftmost", free[0]);
    root.classList.toggle("ex-topmost", free[1]);
  }

  /** Whether the map would lie over a rectangle: left, top, right, bottom. @param {Corner} corner @param {number[][]} rects */
  #covers([isLeft, isTop], rects) {
    const { width, height } = this.camera.viewport();
    const { offsetWidth: wide, offsetHeight: high } = this.root;
    const left = isLeft ? MARGIN : width - MARGIN - wide;
    const top = isTop ? MARGIN : height - MARGIN - high;
    return rects.some((rect) => rect[0] < left + wide && rect[2] > left && rect[1] < top + high && rect[3] > top);
  }
}
