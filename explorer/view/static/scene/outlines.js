// Outlines of groups: a rectangle if it contains exactly the members, else a shape around each member. kernel_outlines.py is the Python counterpart.

const [PAD, HUG] = [10, 7];

/** Return the left, top, right and bottom edges around some rectangles. @param {import("./placement.js").Rect[]} rects @returns {[number, number, number, number]} */
export function around(rects, pad = PAD) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y, wide, high] of rects) {
    [left, right] = [Math.min(left, x), Math.max(right, x + wide)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y + high)];
  }
  return [left - pad, top - pad, right + pad, bottom + pad];
}

/** @type {(edges: number[], rect: number[]) => boolean} */
const touches = ([left, top, right, bottom], [x, y, w, h]) => x < right && x + w > left && y < bottom && y + h > top;
/** @type {(rect: number[], edges: number[]) => boolean} */
const holds = ([x, y, w, h], [left, top, right, bottom]) => x <= left && y <= top && right <= x + w && bottom <= y + h;

/** px of a line of small text above and below its baseline, including a gap. */
const [RISE, FALL] = [14, 7];

/** Return the y position nearest to `wanted` at which a text of width `wide` to the right of a shape overlaps nothing, undefined if there is none. @param {number[]} shape @param {number} wide @param {number} wanted @param {import("./placement.js").Placement} placement */
export function freeHeight(/** @type {number[]} */ [, top, right, low], wide, wanted, placement) {
  const strip = [right, top - RISE, right + wide, low + FALL];
  const closed = [...placement.boxes].filter(([box]) => !placement.composed.has(box)).map(([, rect]) => rect);
  const taken = [...placement.slots.values(), ...closed].filter((rect) => touches(strip, rect)).map(([, y, , high]) => [y - FALL, y + high + RISE]);
  const isFree = (height) => height >= top + RISE && height <= low - FALL && !taken.some(([from, to]) => height > from && height < to);
  const heights = [wanted, ...taken.flat()].filter(isFree).sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted));
  return heights[0];
}

/** Outline of one group on one placement. Nearby rectangles are found once and checked at every moment. */
export class Outline {
  /** @param {import("./frames.js").Frame} frame @param {import("./placement.js").Placement} placement */
  constructor({ slots, boxes, again }, placement) {
    /** shapes of values that other kernels compute, too, which have other titles */ this.again = new Set(again.map((slot) => slots.indexOf(slot)));
    this.rects = [...slots.map((slot) => placement.slots.get(slot)), ...boxes.map((box) => placement.boxes.get(box))];
    this.whole = around(this.rects);
    const near = (rects, own) => [...rects].filter(([key, rect]) => !own.includes(key) && touches(this.whole, rect)).map(([key]) => key);
    const touched = near(placement.boxes, boxes);
    /** slots and closed boxes that a rectangle would also contain */
    this.slots = near(placement.slots, slots);
    this.boxes = touched.filter((box) => !placement.composed.has(box));
    this.cuts = touched.some((box) => placement.composed.has(box) && !holds(placement.boxes.get(box), this.whole));
  }

  /** Return the left, top, right and bottom edges of each shape, from top to bottom; values that other kernels compute, too, are last. @param {import("./scene.js").Scene} scene */
  shapes(scene) {
    const parted = this.cuts || this.slots.some((slot) => scene.slots.has(slot)) || this.boxes.some((box) => !scene.boxes.get(box)?.empty);
    if (!parted) return [this.whole];
    const shapes = this.rects.map((rect, index) => ({ edges: around([rect], HUG), isAgain: Number(this.again.has(index)) }));
    shapes.sort(({ edges: a, isAgain }, { edges: b, isAgain: other }) => isAgain - other || a[1] - b[1] || a[0] - b[0]);
    return shapes.map(({ edges }) => edges);
  }
}
