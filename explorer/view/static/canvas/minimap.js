// Minimap: the whole graph in a corner where it covers no node, with the visible part framed. A press or drag moves the camera.

import { html, notIdle, whenIdle } from "../dom.js";
import { Bitmap } from "./bitmap.js";
import { FreeCorner } from "./free_corner.js";

const [WIDE, HIGH] = [108, 84];
/** Minimum size of the canvas in multiples of the map's size, so that the map does not cover too much of it. */
const [WIDTHS, HEIGHTS] = [4, 3];

/** Small bitmap of a placement, drawn once for each scene, so that moving the camera costs the same for every graph. */
export class Minimap {
  /** @param {import("./camera.js").Camera} camera @param {HTMLElement} legend the legend of colours, which also covers no node */
  constructor(camera, legend) {
    this.camera = camera;
    this.root = html("canvas", { class: "ex-minimap", "aria-hidden": "true" });
    this.picture = html("canvas");
    this.pixels = new Bitmap(this.picture);
    this.pen = this.root.getContext("2d");
    this.corners = [new FreeCorner(this.root, camera, false), new FreeCorner(legend, camera, true)];
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
    for (const corner of this.corners) corner.end();
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
    for (const corner of this.corners) corner.later(() => this.wanted);
    const [x, y, w, h] = this.camera.sight();
    const whole = x <= 1 && y <= 1 && x + w >= this.size[0] - 1 && y + h >= this.size[1] - 1;
    const { width, height } = this.camera.viewport();
    const covers = width < WIDTHS * WIDE || height < HEIGHTS * HIGH;
    this.root.classList.toggle("ex-unseen", whole || covers);
    if (whole || covers) return;
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
