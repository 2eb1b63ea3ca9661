// Camera that pans, zooms and fits the visible part of the graph.

import { calm } from "../dom.js";
import { motion } from "./reveal.js";

const [SMALLEST, LARGEST] = [0.02, 3];
/** Initial scale of a graph that does not fit legibly, at which the second lines of nodes have a height of 9 px. */
export const READABLE = 0.9;
/** Minimum scale at which a graph is legible. */
export const LEGIBLE = 0.6;
/** Minimum initial scale of a whole graph, at which names have a height of 9 px. */
const CLEAR = 0.75;
/** px between a fitted graph and the border of its canvas. */
export const ROOM = 14;
/** Maximum scale of a graph that is fitted into view. */
const WHOLE = 1.25;
/** px of a dragged graph that stay visible. */
const KEPT = 60;

/** Scale and offset of the world in a viewport. */
export class Camera {
  /** @param {HTMLElement} world the element to transform; a transform on or inside an svg element would lay out all of its text again @param {() => {width: number, height: number}} viewport @param {(...sights: number[][]) => void} onMove called with the visible rectangle and, during an animation, with the previous one */
  constructor(world, viewport, onMove) {
    this.world = world;
    this.viewport = viewport;
    this.onMove = onMove;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.smallest = SMALLEST;
    /** the world rectangle that was visible last @type {number[] | undefined} */ this.seen = undefined;
    /** the rectangles over the canvas: left, top, right, bottom in px of the viewport @type {() => number[][]} */ this.overlays = () => [];
    /** px that further lines of the sentence cover at the top @type {() => number} */ this.header = () => 0;
    /** the world rectangles that were revealed last, if the camera has not moved since @type {number[][]} */ this.revealed = [];
    /** px above the viewport's part into which a graph was fitted last */ this.top = 0;
    /** px that a drawer covers at the right and at the bottom @type {() => number[]} */ this.covered = () => [0, 0];
  }

  #apply(smooth = false) {
    const sight = this.sight();
    this.revealed = [];
    // Nodes between two distant positions have no elements, so an animation would show empty background.
    const glides = smooth && !calm() && overlap(this.seen, sight);
    this.world.classList.toggle("ex-gliding", glides);
    this.world.style.transform = `translate(${this.x.toFixed(1)}px,${this.y.toFixed(1)}px) scale(${this.scale.toPrecision(5)})`;
    const { classList } = this.world;
    classList.toggle("ex-near", this.scale >= 0.9);
    classList.toggle("ex-far", this.scale < 0.5);
    classList.toggle("ex-distant", this.scale < 0.2);
    // During an animation the previous rectangle is still visible.
    this.onMove(sight, ...(glides ? [this.seen] : []));
    this.seen = sight;
  }

  /** Whether an animation is running. */
  get gliding() {
    return this.world.classList.contains("ex-gliding");
  }

  /** Return the part of a viewport below the header that no drawer covers. @param {{width: number, height: number}} view */
  free(view = this.viewport()) {
    const [right, bottom] = this.covered();
    const left = (room, covered) => (room - covered > 4 * ROOM ? room - covered : room);
    return { width: left(view.width, right), height: left(view.height, bottom) - this.top };
  }

  /** Return the largest scale, up to a limit, at which a whole world rectangle is visible and not covered. @param {number[]} size its width and height */
  whole([width, height], view = this.free()) {
    return Math.min((view.width - 2 * ROOM) / width, (view.height - 2 * ROOM) / height, WHOLE);
  }

  /** Center a world point at a scale. */
  stand(scale, x, y, smooth = false, view = this.viewport()) {
    this.scale = scale;
    this.x = view.width / 2 - x * scale;
    this.y = view.height / 2 - y * scale;
    this.#apply(smooth);
  }

  /** Center a world rectangle. The minimum scale `opening` keeps text legible. If the rectangle does not fit at this scale, show its top, or its left if values flow to the `right`, centered across the flow on the items at its start. @param {number[]} size @param {number} [opening] @param {boolean} [right] @param {(length: number, room: number) => number | undefined} [beginning] returns the center of the items within `length` of the start that fit into `room` */
  fit([width, height], opening = 0, right = false, beginning = undefined) {
    // A margin is free in any case.
    this.top = Math.max(0, this.header() - ROOM / 2);
    const view = this.free();
    if (!view.width || !view.height || !width || !height) return;
    const whole = this.whole([width, height]);
    this.smallest = Math.min(SMALLEST, whole);
    this.scale = Math.min(LARGEST, opening && whole < CLEAR ? opening : whole);
    const at = (room, length, along, other) => {
      const spare = room - length * this.scale;
      if (!opening || spare >= (along ? 2 * ROOM : 0)) return spare / 2;
      const middle = along ? undefined : beginning?.(other / this.scale, (room - 2 * ROOM) / this.scale);
      return along ? ROOM : middle === undefined ? spare / 2 : Math.min(ROOM, Math.max(spare - ROOM, room / 2 - middle * this.scale));
    };
    this.x = at(view.width, width, right, view.height);
    this.y = this.top + at(view.height, height, !right, view.width);
    this.#apply(!opening);
  }

  pan(dx, dy, smooth = false) {
    this.x += dx;
    this.y += dy;
    this.#apply(smooth);
  }

  /** Pan as a page scrolls: only up to the edges of the world, and not along an axis in which the world fits. Return whether the camera moved. */
  scroll(dx, dy, size) {
    const [view, covered] = [this.viewport(), this.covered()];
    const along = (at, by, room, length) => {
      const least = room - length * this.scale - ROOM;
      return length * this.scale <= room ? 0 : Math.max(Math.min(least - at, 0), Math.min(Math.max(ROOM - at, 0), by));
    };
    const moved = [along(this.x, dx, view.width - covered[0], size[0]), along(this.y, dy, view.height - covered[1], size[1])];
    if (Math.abs(moved[0]) + Math.abs(moved[1]) < 1) return false;
    this.pan(...moved);
    return true;
  }

  /** Pan, but keep a part of the world visible. */
  drag(dx, dy, size) {
    const view = this.viewport();
    const within = (at, by, room, length) => Math.max(KEPT - length * this.scale, Math.min(room - KEPT, at + by)) - at;
    this.pan(within(this.x, dx, view.width, size[0]), within(this.y, dy, view.height, size[1]));
  }

  /** Zoom by a factor around a point of the viewport. */
  zoom(factor, x = this.viewport().width / 2, y = this.viewport().height / 2, smooth = false) {
    const scale = Math.min(LARGEST, Math.max(this.smallest, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.#apply(smooth);
  }

  /** Move by the minimum needed to show the first of some world rectangles (left, top, right, bottom) and as many of the next ones as fit. @param {...number[]} rects */
  reveal(...rects) {
    const shown = rects.map(([left, top, right, bottom]) => [this.x + left * this.scale, this.y + top * this.scale, this.x + right * this.scale, this.y + bottom * this.scale]);
    const [dx, dy] = motion(shown, this.viewport(), this.overlays());
    if (dx || dy) this.pan(dx, dy, true);
    this.revealed = rects;
  }

  /** Reveal the same rectangles again after a part over the canvas has grown, unless the camera has moved since. */
  revealAgain() {
    if (this.revealed.length) this.reveal(...this.revealed);
  }

  /** Center a world point. */
  center(x, y, smooth = true) {
    const view = this.viewport();
    this.pan(view.width / 2 - this.x - x * this.scale, view.height / 2 - this.y - y * this.scale, smooth);
  }

  /** Adapt to a new viewport size. Fit a graph again that was fitted before. Otherwise keep its center or, along the flow of a graph that does not fit, keep its start visible. @param {{width: number, height: number}} before @param {number[]} size of the graph @param {boolean} [right] whether values flow to the right */
  resized(before, size, right = false) {
    const now = this.viewport();
    if (!now.width || !now.height) return;
    const known = before.width && before.height ? before : (this.known ?? now);
    this.known = now;
    if (known.width === now.width && known.height === now.height) return;
    const [wide, high] = size.map((length) => length * this.scale);
    if (this.isFitted(size, known)) {
      this.smallest = Math.min(SMALLEST, this.whole(size));
      return this.stand(this.whole(size), size[0] / 2, size[1] / 2 - this.top / this.whole(size), false, this.free());
    }
    const moved = (at, length, then, room, along) => (along && length > room && at >= 0 ? Math.min(at, ROOM) : at + (room - then) / 2);
    this.x = moved(this.x, wide, known.width, now.width, right);
    this.y = moved(this.y, high, known.height, now.height, !right);
    this.#apply();
  }

  /** Whether a whole world of this size is fitted into a viewport or into its part that no drawer covers. @param {number[]} size @param {{width: number, height: number}} view */
  isFitted(size, view = this.viewport()) {
    const [wide, high] = size.map((length) => length * this.scale);
    const fills = (room) => Math.abs(this.scale - this.whole(size, room)) < 1e-9 && Math.abs(room.width - wide - 2 * this.x) < 2 && Math.abs(room.height - high - 2 * (this.y - this.top)) < 2;
    return fills({ width: view.width, height: view.height - this.top }) || fills(this.free(view));
  }

  /** Whether a whole world of this size is visible. */
  sees(size) {
    const view = this.viewport();
    return this.x >= 0 && this.y >= 0 && this.holds(size, view.width - this.x, view.height - this.y);
  }

  /** Whether a whole world of this size fits into the viewport. @param {number[]} size its width and height */
  holds([width, height], wide = this.viewport().width, high = this.viewport().height) {
    return width * this.scale <= wide && height * this.scale <= high;
  }

  /** Whether a world rectangle (left, top, right, bottom) is visible. @param {number[]} rect */
  shows(rect) {
    const [left, top, right, bottom] = rect;
    const [x, y, width, height] = this.sight();
    return left >= x && top >= y && right <= x + width && bottom <= y + height;
  }

  /** Return the visible world rectangle: x, y, width, height. */
  sight() {
    const view = this.viewport();
    return [-this.x / this.scale, -this.y / this.scale, view.width / this.scale, view.height / this.scale];
  }
}

/** Whether two rectangles overlap. @param {number[] | undefined} rect x, y, width, height @param {number[]} other */
function overlap(rect, other) {
  return rect !== undefined && [0, 1].every((axis) => rect[axis] < other[axis] + other[axis + 2] && other[axis] < rect[axis] + rect[axis + 2]);
}
