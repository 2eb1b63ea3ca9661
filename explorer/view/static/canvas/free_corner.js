// Position of a small part over the canvas: a corner where it covers no node, or else the part is transparent.

import { standing } from "./initial_view.js";

/** px between a part and the border of the canvas, and ms without camera motion before the part changes its corner. */
const [MARGIN, REST] = [10, 250];
/** @typedef {[boolean, boolean]} Corner whether it is on the left, and whether it is at the top */
/** @type {Corner[]} in order of preference */
const CORNERS = [[false, false], [false, true], [true, true], [true, false]];

/** Corner of a part, which changes if the part covers something and would cover nothing in another corner. */
export class FreeCorner {
  /** @param {HTMLElement} root the part @param {import("./camera.js").Camera} camera @param {boolean} isLeft whether it prefers the left side */
  constructor(root, camera, isLeft) {
    this.root = root;
    this.camera = camera;
    this.corners = isLeft ? [...CORNERS].reverse() : CORNERS;
    this.corner = this.corners[0];
    /** @type {HTMLElement[]} the other parts over the canvas */ this.others = [];
    this.timer = 0;
    root.classList.toggle("ex-leftmost", isLeft);
  }

  /** Choose a corner once the camera has stopped. @param {() => {placement: any, scene: any}} shown */
  later(shown) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#choose(shown()), REST);
  }

  /** Cancel a scheduled choice. */
  end() {
    clearTimeout(this.timer);
  }

  #choose({ placement, scene }) {
    const { root } = this;
    if (!root.isConnected || !isSeen(root) || root.matches(":active")) return;
    const { x, y, scale } = this.camera;
    const items = standing(placement, scene).map(([left, top, wide, high]) => [x + left * scale, y + top * scale, x + (left + wide) * scale, y + (top + high) * scale]);
    const others = this.others.filter(isSeen).map((part) => [part.offsetLeft, part.offsetTop, part.offsetLeft + part.offsetWidth, part.offsetTop + part.offsetHeight]);
    const isFree = (corner) => !this.#covers(corner, items) && !this.#covers(corner, others);
    const free = isFree(this.corner) ? this.corner : this.corners.find(isFree);
    root.classList.toggle("ex-covering", !free);
    if (!free) return;
    this.corner = free;
    root.classList.toggle("ex-leftmost", free[0]);
    root.classList.toggle("ex-topmost", free[1]);
  }

  /** Whether the part would cover a rectangle (left, top, right, bottom). @param {Corner} corner @param {number[][]} rects */
  #covers([isLeft, isTop], rects) {
    const { width, height } = this.camera.viewport();
    const { offsetWidth: wide, offsetHeight: high } = this.root;
    const left = isLeft ? MARGIN : width - MARGIN - wide;
    const top = isTop ? MARGIN : height - MARGIN - high;
    return rects.some((rect) => rect[0] < left + wide && rect[2] > left && rect[1] < top + high && rect[3] > top);
  }
}

/** @param {HTMLElement} part */
const isSeen = (part) => part.offsetWidth > 0 && !part.classList.contains("ex-unseen");
