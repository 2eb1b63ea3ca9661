// Minimap: the whole graph in a corner where it covers no node, with the visible part framed. A press or drag moves the camera.

import { standing } from "./initial_view.js";
import { html, notIdle, whenIdle } from "../dom.js";
import { Bitmap } from "./bitmap.js";

const [WIDE, HIGH] = [108, 84];
/** Minimum size of the canvas in multiples of the map's size, so that the map does not cover too much of it. */
const [WIDTHS, HEIGHTS] = [4, 3];

/** Small bitmap of a placement, drawn once for each scene, so that moving the camera costs the same for every graph. */
export class Minimap {
  /** @param {import("./camera.js").Camera} camera */
  constructor(camera) {
    this.camera = camera;
    this.root = html("canvas", { class: "ex-minimap", "aria-hidden": "true" });
    this.picture = html("canvas");
    this.pixels = new Bitmap(this.picture);
    this.pen = this.root.getContext("2d");
    this.corner = new MinimapCorner(this.root, camera);
    this.waiting = 0;
    this.factor = 0;
    for (const name of ["pointerdown", "pointermove"]) {
      this.root.addEventListener(name, (event) => {
        if (event.buttons !== 1 || !this.factor) return;
        event.preventDefault();
        event.stopPropagation();
        camera.center((event.offsetX - this.left) / this.factor, (event.offsetY - this.top) / this.factor, false);
      });
    }
  }

  /** Read the colours of the theme. Reading them costs a layout, so it is done once for each theme. */
  paint() {
    const colours = getComputedStyle(this.root);
    this.strong = colours.getPropertyValue("--ex-accent");
    this.soft = colours.getPropertyValue("--ex-edge");
    this.apart = { added: "--ex-new", removed: "--ex-bad", changed: "--ex-warn", rewired: "--ex-accent", regrouped: "--ex-fuse" };
    for (const [difference, name] of Object.entries(this.apart)) this.apart[difference] = colours.getPropertyValue(name);
  }

  /** Draw a scene once the browser is idle. @param {import("../scene/placement.js").Placement} placement @param {import("../scene/scene.js").Scene} scene @param {Map<number, import("../compare/differences.js").Difference>} [differs] slot → its difference from the other graph */
  draw(placement, scene, differs = new Map()) {
    this.size = placement.size;
    this.factor = Math.min((WIDE - 12) / this.size[0], (HIGH - 12) / this.size[1]);
    this.left = (WIDE - this.size[0] * this.factor) / 2;
    this.top = (HIGH - this.size[1] * this.factor) / 2;
    this.wanted = { placement, scene, differs };
    this.waiting ||= whenIdle(() => {
      this.waiting = 0;
      this.#draw(this.wanted);
      this.refresh();
    });
    this.refresh();
  }

  /** Stop drawing. */
  end() {
    if (this.waiting) notIdle(this.waiting);
    this.corner.end();
  }

  #draw({ placement, scene, differs }) {
    const { pixels } = this;
    const attention = new Set(scene.attention);
    const hidden = new Map([...differs].map(([slot, difference]) => [placement.hiddenIn[slot], difference.kind]));
    const words = new Map([this.strong, this.soft, ...Object.values(this.apart)].map((colour) => [colour, pixels.colour(colour)]));
    const colour = (strong, difference) => words.get(strong ? this.strong : (this.apart[difference] ?? this.soft));
    pixels.begin(WIDE, HIGH);
    const draw = ([x, y, w, h], word) => pixels.fill(this.left + x * this.factor, this.top + y * this.factor, Math.max(1.5, w * this.factor), Math.max(1.5, h * this.factor), word);
    for (const [box, rect] of placement.boxes) if (!placement.composed.has(box)) draw(rect, colour(scene.boxes.get(box)?.changed, hidden.get(box)));
    for (const [slot, rect] of placement.slots) if (scene.slots.has(slot)) draw(rect, colour(attention.has(slot), differs.get(slot)?.kind));
    pixels.end();
  }

  /** Update the frame around the visible part after the camera moved. */
  refresh() {
    if (!this.factor) return;
    const [x, y, w, h] = this.camera.sight();
    const whole = x <= 1 && y <= 1 && x + w >= this.size[0] - 1 && y + h >= this.size[1] - 1;
    const { width, height } = this.camera.viewport();
    const covers = width < WIDTHS * WIDE || height < HEIGHTS * HIGH;
    this.root.classList.toggle("ex-unseen", whole || covers);
    if (whole || covers) return;
    this.corner.later(() => this.wanted);
    if (!this.picture.width) return;
    const { pen, root } = this;
    const density = devicePixelRatio || 1;
    // Setting the size of a canvas allocates new memory, so set it only if it changed.
    if (root.width !== Math.round(WIDE * density)) [root.width, root.height] = [Math.round(WIDE * density), Math.round(HIGH * density)];
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, WIDE, HIGH);
    pen.drawImage(this.picture, 0, 0, WIDE, HIGH);
    pen.strokeStyle = this.strong;
    pen.lineWidth = 1.5;
    pen.strokeRect(this.left + x * this.factor, this.top + y * this.factor, w * this.factor, h * this.factor);
  }
}

/** px between the map and the border of the canvas, and ms without camera motion before the map changes its corner. */
const [MARGIN, REST] = [10, 250];
/** @typedef {[boolean, boolean]} Corner whether it is on the left, and whether it is at the top */
/** @type {Corner[]} in order of preference */
const CORNERS = [[false, false], [false, true], [true, true], [true, false]];

/** Position of the map, which changes if the map covers something and would cover nothing in another corner. */
class MinimapCorner {
  /** @param {HTMLElement} root the map @param {import("./camera.js").Camera} camera */
  constructor(root, camera) {
    this.root = root;
    this.camera = camera;
    /** @type {Corner} */ this.corner = CORNERS[0];
    /** @type {HTMLElement[]} the other parts over the canvas */ this.others = [];
    this.timer = 0;
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

  /** Whether the map would cover a rectangle (left, top, right, bottom). @param {Corner} corner @param {number[][]} rects */
  #covers([isLeft, isTop], rects) {
    const { width, height } = this.camera.viewport();
    const { offsetWidth: wide, offsetHeight: high } = this.root;
    const left = isLeft ? MARGIN : width - MARGIN - wide;
    const top = isTop ? MARGIN : height - MARGIN - high;
    return rects.some((rect) => rect[0] < left + wide && rect[2] > left && rect[1] < top + high && rect[3] > top);
  }
}
