// Composition of positions for a set of open boxes: view_payload.py states the rule; layout/placement.py is the Python counterpart.

import { flowsRight } from "./direction.js";

/** @typedef {number[]} Rect x, y, width, height in px */
/** @typedef {{key: string, points: number[], arrow: boolean, names?: string[]}} Segment names: names of layer ports at its ends */
/** @typedef {[box: number, from: number, to: number, out: number, into: number]} Piece a segment of an edge: its box, the items at both ends, and the ports there. The key of a segment is these numbers joined by ":". */

/** Return a monotone piecewise linear map of one axis, which is steeper at opened items that need more room. */
function axis(needs) {
  const wanted = needs.filter(([, length, want]) => want > length && length > 0);
  const cuts = [...new Set([0, ...wanted.flatMap(([start, length]) => [start, start + length])])].sort((a, b) => a - b);
  const slopes = cuts.map((cut) => wanted.reduce((steepest, [start, length, want]) => (start <= cut && cut < start + length ? Math.max(steepest, want / length) : steepest), 1));
  const to = [0];
  for (let index = 1; index < cuts.length; index++) to.push(to[index - 1] + (cuts[index] - cuts[index - 1]) * slopes[index - 1]);
  return (value) => {
    let index = 0;
    while (index + 1 < cuts.length && cuts[index + 1] <= value) index++;
    return to[index] + (value - cuts[index]) * (value >= 0 ? slopes[index] : 1);
  };
}

/** Swap x and y in a list x, y, x, y, …, to convert between the two flow directions. @param {number[]} values */
const exchanged = (values) => values.map((_, index) => values[index ^ 1]);
/** @param {number[]} values */
const same = (values) => values;

/** Return the distance from the left side of an open box to the point where values enter it, its center if there are several points. */
const entry = ({ ports: [tops], size }) => (tops.length === 1 ? tops[0] : size[0] / 2);

/** Return the room that an opened item needs to the left and right of the point where values enter it. */
function halves([left, , wide], child) {
  return [
    [left, wide / 2, entry(child)],
    [left + wide / 2, wide / 2, child.size[0] - entry(child)],
  ];
}

/** Compose one open box in its own coordinates. */
function composeBox(box, composed) {
  const opened = box.items.flatMap((item) => {
    const child = item.box === undefined ? undefined : composed.get(item.box);
    return child ? [{ at: item.at, child }] : [];
  });
  const x = axis(opened.flatMap(({ at, child }) => halves(at, child)));
  const y = axis(opened.map(({ at, child }) => [at[1], at[3], child.size[1]]));
  const places = box.items.map((item) => {
    const [left, top, wide, high] = item.at;
    const child = item.box === undefined ? undefined : composed.get(item.box);
    const cy = child ? (y(top) + y(top + high)) / 2 : y(top + high / 2);
    const [w, h] = child?.size ?? [wide, high];
    return [x(left + wide / 2) - (child ? entry(child) : wide / 2), cy - h / 2, w, h];
  });
  return { size: [x(box.size[0]), y(box.size[1])], ports: box.ports.map((side) => side.map(x)), places, x, y };
}

/** Cosine of the largest angle between two curves, 11°, at which a joint looks smooth. */
const STRAIGHT = 0.98;

/** Minimum horizontal motion in px of an edge's end, at a port of an opened box, for the next joint to follow. */
const MOVED = 16;

/** Move the joint next to a moved end, with its handles, between this end and the next joint. All arguments after `points` are indices of x coordinates. */
function settle(points, end, near, joint, far, other) {
  const between = (x, one, two) => Math.min(Math.max(x, Math.min(one, two)), Math.max(one, two));
  const by = between(points[joint], points[end], points[other]) - points[joint];
  for (const place of [near, joint, far]) points[place] += by;
  points[near] = between(points[near], points[end], points[joint]);
}

/** Align the handles at each joint of two curves that stretching or a moved end has bent. @param {number[]} points */
function smooth(points) {
  for (let joint = 6; joint < points.length - 2; joint += 6) {
    const [x, y] = [points[joint], points[joint + 1]];
    const [ax, ay, bx, by] = [x - points[joint - 2], y - points[joint - 1], points[joint + 2] - x, points[joint + 3] - y];
    const [before, after] = [Math.sqrt(ax * ax + ay * ay), Math.sqrt(bx * bx + by * by)];
    if (before < 1 || after < 1 || ax * bx + ay * by > STRAIGHT * before * after) continue;
    const [dx, dy] = [ax / before + bx / after, ay / before + by / after];
    const length = Math.sqrt(dx * dx + dy * dy);
    if (dy <= 0 || length < 0.01) continue;
    const above = Math.min(before, (Math.max(0, y - points[joint - 5]) * length) / dy);
    const below = Math.min(after, (Math.max(0, points[joint + 7] - y) * length) / dy);
    if (above < 1 || below < 1) continue;
    [points[joint - 2], points[joint - 1]] = [x - (dx / length) * above, y - (dy / length) * above].map(Math.round);
    [points[joint + 2], points[joint + 3]] = [x + (dx / length) * below, y + (dy / length) * below].map(Math.round);
  }
}

/** Positions of everything visible inside a box. */
export class Placement {
  /** @param {any} layout @param {Set<number>} open the open boxes @param {number} outermost @param {boolean} [isRecorded] whether only what the program recorded has space */
  constructor(layout, open, outermost, isRecorded = false) {
    this.layout = layout;
    this.isRecorded = isRecorded;
    /** converts coordinates, because boxes are composed as if values flowed down */ this.flowing = flowsRight(layout) ? exchanged : same;
    this.outermost = outermost;
    this.open = open;
    /** @type {Map<number, Rect>} */ this.slots = new Map();
    /** @type {Map<number, Rect>} every visible box, outer boxes first */ this.boxes = new Map();
    /** @type {Map<string, Segment>} */ this.segments = new Map();
    /** @type {Map<string, {point: number[], side: number, slot: number}>} key of an edge → position of its label, and slot of its value */ this.labels = new Map();
    this.composed = new Map();
    this.shownBoxes = [outermost];
    for (const box of this.shownBoxes) {
      for (const item of this.#inside(box).items) if (item.box !== undefined && item.at[2] && open.has(item.box)) this.shownBoxes.push(item.box);
    }
    for (const box of [...this.shownBoxes].reverse()) this.composed.set(box, composeBox(this.#inside(box), this.composed));
    this.size = this.flowing(this.composed.get(outermost).size.map(Math.round));
    this.#placeItems();
    this.#findRepresentatives();
  }

  /** Return the layout of the inside of a box. @param {number} box */
  #inside(box) {
    const inside = this.layout.boxes[box];
    return (this.isRecorded && inside.recorded) || inside;
  }

  #placeItems() {
    const origins = new Map([[this.outermost, [0, 0]]]);
    this.boxes.set(this.outermost, [0, 0, ...this.size]);
    for (const index of this.shownBoxes) {
      const [left, top] = origins.get(index);
      const own = this.composed.get(index);
      const box = this.#inside(index);
      box.items.forEach((item, place) => {
        const [x, y, w, h] = own.places[place];
        if (!w) return;
        const rect = this.flowing([left + x, top + y, w, h].map(Math.round));
        if (item.slot === undefined) {
          this.boxes.set(item.box, rect);
          origins.set(item.box, [left + x, top + y]);
        } else this.slots.set(item.slot, rect);
      });
    }
    /** @type {[string, Segment][]} the segments that end at a named port */ this.named = [];
    for (const index of this.shownBoxes) {
      const [box, own, origin] = [this.#inside(index), this.composed.get(index), origins.get(index)];
      for (const [from, to, out, into, x, y, side, slot] of box.labels) {
        const point = this.flowing([origin[0] + own.x(x), origin[1] + own.y(y)].map(Math.round));
        this.labels.set([index, from, to, out, into].join(":"), { point, side, slot });
      }
      for (const edge of box.edges) {
        const segment = this.#route(index, box, own, edge, origin);
        if (segment.names.length) this.named.push([segment.key, segment]);
      }
    }
  }

  #route(index, box, own, [from, to, route, out, into, ...names], origin) {
    if (!route.length) return this.#plain(index, from, to, out, into, names);
    const end = (item, x, y, isStart, port) => {
      if (item < 0) return [own.ports[isStart ? 0 : 1][port], isStart ? 0 : own.size[1]];
      const [left, top, wide, high] = own.places[item];
      const child = box.items[item].box === undefined ? undefined : this.composed.get(box.items[item].box);
      if (child) return [left + child.ports[isStart ? 1 : 0][port], top + (isStart ? high : 0)];
      const [x0, y0, w, h] = box.items[item].at;
      return [left + wide / 2 + x - x0 - w / 2, top + high / 2 + y - y0 - h / 2];
    };
    const count = route.length / 2 - 1;
    const at = (k) => [own.x(route[2 * k]), own.y(route[2 * k + 1])];
    const start = end(from, route[0], route[1], true, out);
    const stop = end(to, route[2 * count], route[2 * count + 1], false, into);
    const first = [start[0] - at(0)[0], start[1] - at(0)[1]];
    const last = [stop[0] - at(count)[0], stop[1] - at(count)[1]];
    const points = [];
    for (let k = 0; k <= count; k++) {
      const shift = k <= 1 ? first : k >= count - 1 ? last : [0, 0];
      const [x, y] = at(k);
      points.push(Math.round(origin[0] + x + shift[0]), Math.round(origin[1] + y + shift[1]));
    }
    if (count > 3 && Math.abs(first[0]) > MOVED) settle(points, 0, 4, 6, 8, 12);
    const { length } = points;
    if (count > 3 && Math.abs(last[0]) > MOVED) settle(points, length - 2, length - 6, length - 8, length - 10, length - 14);
    smooth(points);
    const key = [index, from, to, out, into].join(":");
    const segment = { key, points: this.flowing(points), arrow: this.#hasArrow(index, to), names };
    this.segments.set(key, segment);
    return segment;
  }

  /** Compute for every slot −1 if it is visible, the closed box that hides it, or −2 if it is outside this canvas. */
  #findRepresentatives() {
    const boxes = this.layout.boxes;
    this.hiddenIn = new Int32Array(this.layout.slots.length).fill(-2);
    for (const slot of this.slots.keys()) this.hiddenIn[slot] = -1;
    for (const closed of this.boxes.keys()) {
      if (this.composed.has(closed)) continue;
      const inside = [closed];
      for (const box of inside) {
        for (const item of boxes[box].items) {
          if (item.slot === undefined) inside.push(item.box);
          else this.hiddenIn[item.slot] = closed;
        }
      }
    }
  }

  /** Return the rectangle of an item in a box; −1 is the box itself. @returns {Rect} */
  rect(box, item) {
    if (item < 0) return this.boxes.get(box);
    const { slot, box: inner } = this.layout.boxes[box].items[item];
    return slot === undefined ? this.boxes.get(inner) : this.slots.get(slot);
  }

  /** Return a segment by its key; a segment without a route in the layout is a plain curve. @param {string} key @returns {Segment} */
  segment(key) {
    const known = this.segments.get(key);
    if (known) return known;
    const [box, from, to, out, into] = key.split(":").map(Number);
    return this.#plain(box, from, to, out, into, []);
  }

  /** Return a plain curve for an edge without a route, from the bottom of one item to the top of another. */
  #plain(box, from, to, out, into, names) {
    const [[x0, y0], [x1, y1]] = [this.#end(box, from, true, out), this.#end(box, to, false, into)];
    const bend = Math.max(16, Math.abs(y1 - y0) >> 1);
    const points = this.flowing([x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1]);
    const key = [box, from, to, out, into].join(":");
    const segment = { key, points, arrow: this.#hasArrow(box, to), names };
    this.segments.set(key, segment);
    return segment;
  }

  /** Return the point where a plain curve begins or ends at an item: a port of an open box or of the border (−1), else the center. */
  #end(box, item, isStart, port) {
    const [x, y, wide, high] = this.flowing(this.rect(box, item));
    const isBottom = isStart === item >= 0;
    const open = this.composed.get(item < 0 ? box : this.layout.boxes[box].items[item].box);
    return [x + (open ? Math.round(open.ports[isBottom ? 1 : 0][port]) : wide >> 1), y + (isBottom ? high : 0)];
  }

  /** Whether a segment ends at a node or a closed box. */
  #hasArrow(box, to) {
    return to >= 0 && !this.composed.has(this.layout.boxes[box].items[to].box);
  }

  /** Return the key of the slot, "n7", or of the closed box that hides it, "b2". @param {number} slot */
  keyOf(slot) {
    const hidden = this.hiddenIn[slot];
    return hidden >= 0 ? `b${hidden}` : `n${slot}`;
  }

  /** Return the rectangle of the slot or of the closed box that hides it. @returns {Rect | undefined} */
  shows(slot) {
    const hidden = this.hiddenIn[slot];
    return hidden === -1 ? this.slots.get(slot) : hidden >= 0 ? this.boxes.get(hidden) : undefined;
  }
}

/** Segmentation of edges between slots into segments in each box. */
export class Paths {
  /** @param {any} layout */
  constructor(layout) {
    this.boxes = layout.boxes;
    this.holder = new Int32Array(layout.slots.length).fill(-1);
    this.slotPlace = new Int32Array(layout.slots.length);
    this.boxPlace = new Int32Array(layout.boxes.length);
    layout.boxes.forEach((box, index) => {
      box.items.forEach((item, place) => {
        if (item.slot === undefined) this.boxPlace[item.box] = place;
        else {
          this.holder[item.slot] = index;
          this.slotPlace[item.slot] = place;
        }
      });
    });
    /** for the top and bottom of each box: slot → the port at which its value crosses, if not 0 */
    this.crossings = layout.boxes.map(({ crossings }) => (crossings.length ? [0, 1].map((side) => new Map(crossings.filter((row) => row[0] === side).map(([, slot, port]) => [slot, port]))) : null));
    this.depth = new Int32Array(layout.boxes.length).fill(-1);
    layout.boxes.forEach((_, index) => this.#measure(index));
  }

  #measure(index) {
    const path = [];
    for (let box = index; box >= 0 && this.depth[box] < 0; box = this.boxes[box].parent) path.push(box);
    for (const box of path.reverse()) this.depth[box] = this.boxes[box].parent < 0 ? 0 : this.depth[this.boxes[box].parent] + 1;
  }

  /** Return the boxes around a slot, innermost first. */
  around(slot) {
    const boxes = [];
    for (let box = this.holder[slot]; box >= 0; box = this.boxes[box].parent) boxes.push(box);
    return boxes;
  }

  /** Return the boxes around a box, innermost first. */
  outside(box) {
    const boxes = [];
    for (let outer = this.boxes[box].parent; outer >= 0; outer = this.boxes[outer].parent) boxes.push(outer);
    return boxes;
  }

  /** Return the segments of an edge between two slots; item −1 is the border of the box. @returns {Piece[]} */
  segments(producer, consumer) {
    let [start, end] = [this.holder[producer], this.holder[consumer]];
    let [tail, head] = [this.slotPlace[producer], this.slotPlace[consumer]];
    let [out, into] = [0, 0];
    /** @type {Piece[]} */ const segments = [];
    while (start !== end && start >= 0 && end >= 0) {
      if (this.depth[start] >= this.depth[end]) {
        const port = this.crossings[start]?.[1].get(producer) ?? 0;
        segments.push([start, tail, -1, out, port]);
        [out, tail, start] = [port, this.boxPlace[start], this.boxes[start].parent];
      } else {
        const port = this.crossings[end]?.[0].get(producer) ?? 0;
        segments.push([end, -1, head, port, into]);
        [into, head, end] = [port, this.boxPlace[end], this.boxes[end].parent];
      }
    }
    if (tail !== head && start === end) segments.push([start, tail, head, out, into]);
    return segments;
  }
}
