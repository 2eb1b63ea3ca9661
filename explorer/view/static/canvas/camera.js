// Camera: pan, zoom and fit of the visible part of the graph.

import { calm } from "../dom.js";
import { motion } from "./reveal.js";

const [SMALLEST, LARGEST] = [0.02, 3];
/** The scale at which a graph begins that does not fit legibly. */
export const READABLE = 0.82;
/** The least scale at which a graph is legible. */
export const LEGIBLE = 0.6;
const ROOM = 14;
/** The scale of a graph that would fit at a larger one. */
const WHOLE = 1.25;
/** px of a dragged graph that stay in sight. */
const KEPT = 60;

/** Holds the scale and offset of the world in a viewport. */
export class Camera {
  /** @param {HTMLElement} world all of it is moved: a transform of an svg element, or within one, would be a layout of all its text @param {() => {width: number, height: number}} viewport @param {(...sights: number[][]) => void} onMove called with the sight now, and while it glides */
  constructor(world, viewport, onMove) {
    this.world = world;
    this.viewport = viewport;
    this.onMove = onMove;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.smallest = SMALLEST;
    /** the world rectangle that was in sight last @type {number[] | undefined} */ this.seen = undefined;
    /** the rectangles over the canvas: left, top, right, bottom in px of the viewport @type {() => number[][]} */ this.overlays = () => [];
    /** px that a drawer covers at the right and at the bottom @type {() => number[]} */ this.covered = () => [0, 0];
  }

  #apply(smooth = false) {
    const sight = this.sight();
    // The nodes between two places far apart have no elements: a glide would show empty ground.
    const glides = smooth && !calm() && overlap(this.seen, sight);
    this.world.classList.toggle("ex-gliding", glides);
    this.world.style.transform = `translate(${this.x.toFixed(1)}px,${this.y.toFixed(1)}px) scale(${this.scale.toPrecision(5)})`;
    const { classList } = this.world;
    classList.toggle("ex-near", this.scale >= 0.9);
    classList.toggle("ex-far", this.scale < 0.5);
    classList.toggle("ex-distant", this.scale < 0.2);
    // While it glides, the place that it leaves is still in sight.
    this.onMove(sight, ...(glides ? [this.seen] : []));
    this.seen = sight;
  }

  /** Whether it is on its way to where it stands. */
  get gliding() {
    return this.world.classList.contains("ex-gliding");
  }

  /** The largest scale, up to a limit, at which a world rectangle is in sight as a whole. @param {number[]} size its width and height */
  whole([width, height], view = this.viewport()) {
    return Math.min((view.width - 2 * ROOM) / width, (view.height - 2 * ROOM) / height, WHOLE);
  }

  /** Put a world point in the middle at a scale. */
  stand(scale, x, y, smooth = false) {
    const view = this.viewport();
    this.scale = scale;
    this.x = view.width / 2 - x * scale;
    this.y = view.height / 2 - y * scale;
    this.#apply(smooth);
  }

  /** Put a world rectangle in the middle; an `opening` scale keeps text legible, and starts where not all fits at the top, or at the left where values flow to the `right`, with the middle, across the flow, of what stands there. @param {number[]} size @param {number} [opening] @param {boolean} [right] @param {(length: number, room: number) => number | undefined} [beginning] the middle of as much as fits into a room, within a length */
  fit([width, height], opening = 0, right = false, beginning = undefined) {
    const view = this.viewport();
    if (!view.width || !view.height || !width || !height) return;
    const whole = this.whole([width, height]);
    this.smallest = Math.min(SMALLEST, whole);
    this.scale = Math.min(LARGEST, opening && whole < LEGIBLE ? opening : whole);
    const at = (room, length, along, other) => {
      const spare = room - length * this.scale;
      if (!opening || spare >= (along ? 2 * ROOM : 0)) return spare / 2;
      const middle = along ? undefined : beginning?.(other / this.scale, (room - 2 * ROOM) / this.scale);
      return along ? ROOM : middle === undefined ? spare / 2 : Math.min(ROOM, Math.max(spare - ROOM, room / 2 - middle * this.scale));
    };
    this.x = at(view.width, width, right, view.height);
    this.y = at(view.height, height, !right, view.width);
    this.#apply(!opening);
  }

  pan(dx, dy, smooth = false) {
    this.x += dx;
    this.y += dy;
    this.#apply(smooth);
  }

  /** Pan a world of some size as a page scrolls: up to its edges, and not at all along an axis that it fits into; return whether it moved. */
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

  /** Pan a world of some size, a part of which stays in sight. */
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

  /** Move as little as needed to show the first of some world rectangles (left, top, right, bottom), and as many more as fit. @param {...number[]} rects */
  reveal(...rects) {
    const shown = rects.map(([left, top, right, bottom]) => [this.x + left * this.scale, this.y + top * this.scale, this.x + right * this.scale, this.y + bottom * this.scale]);
    const [dx, dy] = motion(shown, this.viewport(), this.overlays());
    if (dx || dy) this.pan(dx, dy, true);
  }

  /** Move so that a world point is in the middle. */
  center(x, y, smooth = true) {
    const view = this.viewport();
    this.pan(view.width / 2 - this.x - x * this.scale, view.height / 2 - this.y - y * this.scale, smooth);
  }

  /** Go on after the viewport has got another size: a graph that was fitted into it is so again; of another the middle stays in the middle, or, the way it flows and where not all fits, its beginning in sight. @param {{width: number, height: number}} before @param {number[]} size of the graph @param {boolean} [right] whether values flow to the right */
  resized(before, size, right = false) {
    const now = this.viewport();
    if (!now.width || !now.height) return;
    const known = before.width && before.height ? before : (this.known ?? now);
    this.known = now;
    if (known.width === now.width && known.height === now.height) return;
    const [wide, high] = size.map((length) => length * this.scale);
    const isFitted = Math.abs(this.scale - this.whole(size, known)) < 1e-9 && Math.abs(known.width - wide - 2 * this.x) < 2 && Math.abs(known.height - high - 2 * this.y) < 2;
    if (isFitted) {
      this.smallest = Math.min(SMALLEST, this.whole(size));
      return this.stand(this.whole(size), size[0] / 2, size[1] / 2);
    }
    const moved = (at, length, then, room, along) => (along && length > room && at >= 0 ? Math.min(at, ROOM) : at + (room - then) / 2);
    this.x = moved(this.x, wide, known.width, now.width, right);
    this.y = moved(this.y, high, known.height, now.height, !right);
    this.#apply();
  }

  /** Whether all of a world of some size is in sight. */
  sees(size) {
    const view = this.viewport();
    return this.x >= 0 && this.y >= 0 && this.holds(size, view.width - this.x, view.height - this.y);
  }

  /** Whether there is room for all of a world of some size. @param {number[]} size its width and height */
  holds([width, height], wide = this.viewport().width, high = this.viewport().height) {
    return width * this.scale <= wide && height * this.scale <= high;
  }

  /** Whether a world rectangle (left, top, right, bottom) is in sight. @param {number[]} rect */
  shows(rect) {
    const [left, top, right, bottom] = rect;
    const [x, y, width, height] = this.sight();
    return left >= x && top >= y && right <= x + width && bottom <= y + height;
  }

  /** The world rectangle in sight: x, y, width, height. */
  sight() {
    const view = this.viewport();
    return [-this.x / this.scale, -this.y / this.scale, view.width / this.scale, view.height / this.scale];
  }
}

/** Whether two rectangles share a part. @param {number[] | undefined} rect x, y, width, height @param {number[]} other */
function overlap(rect, other) {
  return rect !== undefined && [0, 1].every((axis) => rect[axis] < other[axis] + other[axis + 2] && other[axis] < rect[axis] + rect[axis + 2]);
}
