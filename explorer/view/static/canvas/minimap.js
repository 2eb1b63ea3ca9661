// The whole graph in a corner, with the part in sight framed; a press or drag goes there.

import { html } from "../dom.js";

const [WIDE, HIGH] = [108, 84];

/** A small picture of a placement, drawn once a scene as pixels: moving the camera costs the same for any graph. */
export class Minimap {
  /** @param {import("./camera.js").Camera} camera */
  constructor(camera) {
    this.camera = camera;
    this.root = html("canvas", { class: "ex-minimap", "aria-hidden": "true" });
    this.picture = html("canvas");
    this.factor = 0;
    for (const kind of ["pointerdown", "pointermove"]) {
      this.root.addEventListener(kind, (event) => {
        if (event.buttons !== 1 || !this.factor) return;
        event.preventDefault();
        event.stopPropagation();
        camera.center((event.offsetX - this.left) / this.factor, (event.offsetY - this.top) / this.factor, false);
      });
    }
  }

  /** Take the colours of the theme; asking for them costs a layout, so that it is done once a theme. */
  paint() {
    const colours = getComputedStyle(this.root);
    this.strong = colours.getPropertyValue("--ex-accent");
    this.soft = colours.getPropertyValue("--ex-edge");
    this.apart = { added: "--ex-new", removed: "--ex-bad", changed: "--ex-warn", regrouped: "--ex-fuse" };
    for (const [kind, name] of Object.entries(this.apart)) this.apart[kind] = colours.getPropertyValue(name);
  }

  /** @param {import("../scene/compose.js").Placement} placement @param {import("../scene/scene.js").Scene} scene @param {Map<number, import("../compare/differences.js").Difference>} [differs] slot → what it is to the other of two graphs */
  draw(placement, scene, differs = new Map()) {
    this.size = placement.size;
    this.factor = Math.min((WIDE - 12) / this.size[0], (HIGH - 12) / this.size[1]);
    this.left = (WIDE - this.size[0] * this.factor) / 2;
    this.top = (HIGH - this.size[1] * this.factor) / 2;
    const pen = this.#pen(this.picture);
    const attention = new Set(scene.attention);
    const drawn = [];
    const hidden = new Map([...differs].map(([slot, difference]) => [placement.hiddenIn[slot], difference.kind]));
    const colour = (strong, kind) => (strong ? this.strong : (this.apart?.[kind] ?? this.soft));
    for (const [box, rect] of placement.boxes) if (!placement.composed.has(box)) drawn.push([rect, colour(scene.boxes.get(box)?.changed, hidden.get(box))]);
    for (const [slot, rect] of placement.slots) if (scene.slots.has(slot)) drawn.push([rect, colour(attention.has(slot), differs.get(slot)?.kind)]);
    for (const [[x, y, w, h], fill] of drawn) {
      pen.fillStyle = fill;
      pen.fillRect(this.left + x * this.factor, this.top + y * this.factor, Math.max(1.5, w * this.factor), Math.max(1.5, h * this.factor));
    }
    this.refresh();
  }

  #pen(canvas) {
    const density = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [WIDE * density, HIGH * density];
    const pen = canvas.getContext("2d");
    pen.setTransform(density, 0, 0, density, 0, 0);
    return pen;
  }

  /** Frame the part in sight again, after the camera moved. */
  refresh() {
    if (!this.factor) return;
    const [x, y, w, h] = this.camera.sight();
    const whole = x <= 1 && y <= 1 && x + w >= this.size[0] - 1 && y + h >= this.size[1] - 1;
    this.root.classList.toggle("ex-unseen", whole);
    if (whole) return;
    const pen = this.#pen(this.root);
    pen.drawImage(this.picture, 0, 0, WIDE, HIGH);
    pen.strokeStyle = this.strong;
    pen.lineWidth = 1.5;
    pen.strokeRect(this.left + x * this.factor, this.top + y * this.factor, w * this.factor, h * this.factor);
  }
}
