// Low-detail view of a graph that is zoomed out: one bitmap of rectangles instead of elements, drawn for every frame.

import { tintOf } from "../scene/heat.js";
import { html } from "../dom.js";
import { extentOf } from "./edge_path.js";
import { Bitmap } from "./bitmap.js";

/** Scale below which the low-detail view is used: text is unreadable and lines are thinner than a pixel. */
const AFAR = 0.2;
/** Number of visible items above which edges would cover everything. */
const CROWDED = 20000;
/** Maximum distance of a press from a node, in px. */
const NEAR = 4;

/** Class or state of a node → colours of its border and background; the first match applies. */
const LOOKS = {
  bad: ["--ex-bad", "--ex-bad-bg"],
  current: ["--ex-accent", "--ex-accent"],
  new: ["--ex-new", "--ex-new"],
  gone: ["--ex-ghost", "--ex-bg"],
  was: ["--ex-line", "--ex-bg"],
  declined: ["--ex-warn", "--ex-warn-bg"],
  subject: ["--ex-accent", "--ex-accent-bg"],
  ready: ["--ex-accent", "--ex-node"],
  waiting: ["--ex-line", "--ex-node"],
  unused: ["--ex-line", "--ex-node"],
  leaf: ["--ex-line", "--ex-leaf"],
  fresh: ["--ex-new", "--ex-node"],
  output: ["--ex-ink", "--ex-node"],
  member: ["--ex-fuse", "--ex-fused"],
  plain: ["--ex-edge", "--ex-node"],
};
const CHOSEN = ["--ex-accent", "--ex-accent"];
/** Border and background of open boxes, under their contents. */
const [GROUND, CHOSEN_GROUND] = [["--ex-line", "--ex-panel"], ["--ex-accent", "--ex-accent-bg"]];
const DIFFERENCES = { added: ["--ex-new", "--ex-new-bg"], removed: ["--ex-bad", "--ex-bad-bg"], changed: ["--ex-warn", "--ex-warn-bg"], rewired: ["--ex-accent", "--ex-accent-bg"], regrouped: ["--ex-fuse", "--ex-fused"] };

/** Drawing of a canvas in low detail. */
export class LowDetail {
  /** @param {import("./canvas.js").Canvas} canvas @param {import("./camera.js").Camera} camera */
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.camera = camera;
    this.root = html("canvas", { class: "ex-low-detail", "aria-hidden": "true", hidden: true });
    this.pixels = new Bitmap(this.root);
    this.frame = 0;
    /** @type {Map<string, number>} */ this.words = new Map();
    /** @type {((name: string) => number) | null} returns the colour of a CSS variable; null until the theme is known */ this.word = null;
    /** @type {import("./canvas.js").Marks | null} the marks that the shapes were made for */ this.marks = null;
    /** @type {Shapes | null} */ this.edges = null;
    this.ground = this.items = this.strong = new Shapes();
  }

  /** Whether the scale is so small that the low-detail view is shown. */
  get covers() {
    return this.camera.scale < AFAR;
  }

  /** Read the colours of the theme. */
  paint() {
    const style = getComputedStyle(this.root);
    this.words = new Map();
    this.marks = null;
    this.word = (name) => {
      if (!this.words.has(name)) this.words.set(name, this.pixels.colour(style.getPropertyValue(name)));
      return this.words.get(name);
    };
    this.later();
  }

  /** Draw or remove the bitmap in the next frame. */
  later() {
    this.root.hidden = !this.covers;
    if (this.covers && !this.frame) this.frame = requestAnimationFrame(() => this.#draw());
  }

  /** Stop drawing. */
  end() {
    cancelAnimationFrame(this.frame);
  }

  #draw() {
    this.frame = 0;
    const { canvas, camera, pixels } = this;
    if (!this.covers || !canvas.scene || !this.word) return;
    const { width, height } = camera.viewport();
    const sight = camera.sight();
    if (this.marks !== canvas.marks) this.#prepare();
    pixels.begin(width, height);
    const shown = this.items.among(sight);
    this.#rectangles(this.ground, this.ground.among(sight), 1);
    if (shown.length <= CROWDED) this.#lines(sight);
    this.#rectangles(this.items, shown, 1);
    // Highlighted items are drawn over the rest, at a visible minimum size.
    this.#rectangles(this.strong, this.strong.among(sight), 4);
    pixels.end();
  }

  /** Store the rectangles and colours of a scene, which every frame reads. */
  #prepare() {
    const { canvas } = this;
    this.marks = canvas.marks;
    this.edges = null;
    [this.ground, this.items, this.strong] = [new Shapes(), new Shapes(), new Shapes()];
    for (const layer of canvas.depths) for (const key of layer.where.keys()) if (canvas.stands(key)) this.ground.add(canvas.rect(key), ...(key === `b${canvas.marks.box}` ? CHOSEN_GROUND : GROUND).map(this.word));
    for (const key of canvas.items.where.keys()) {
      if (!canvas.stands(key)) continue;
      const look = /** @type {any[]} */ (this.#look(key));
      (look[0] ? this.strong : this.items).add(canvas.rect(key), look[1], look[2]);
    }
  }

  #rectangles(shapes, shown, least) {
    const { x, y, scale } = this.camera;
    const { at, words } = shapes;
    for (const index of shown) {
      const [place, word] = [4 * index, 2 * index];
      const [w, h] = [Math.max(least, at[place + 2] * scale), Math.max(least, at[place + 3] * scale)];
      this.pixels.bordered(x + (at[place] + at[place + 2] / 2) * scale - w / 2, y + (at[place + 1] + at[place + 3] / 2) * scale - h / 2, w, h, words[word], words[word + 1]);
    }
  }

  #lines(sight) {
    const { x, y, scale } = this.camera;
    this.edges ??= this.#edges();
    const { words, ends } = this.edges;
    for (const index of this.edges.among(sight)) {
      const place = 4 * index;
      this.pixels.line(x + ends[place] * scale, y + ends[place + 1] * scale, x + ends[place + 2] * scale, y + ends[place + 3] * scale, words[2 * index]);
    }
  }

  #edges() {
    const colours = { plain: this.pixels.mix(this.word("--ex-panel"), this.word("--ex-edge"), 0.7), new: this.word("--ex-new"), moved: this.word("--ex-accent"), declined: this.word("--ex-warn"), gone: this.word("--ex-line"), was: this.word("--ex-line") };
    const shapes = new Shapes();
    for (const { segment, edge } of this.canvas.edges.values()) {
      const { points } = segment;
      shapes.add(extentOf(segment), colours[edge.state], 0);
      shapes.ends.push(points[0], points[1], points.at(-2), points.at(-1));
    }
    return shapes;
  }

  /** Return whether an item is highlighted, its border colour and its background colour. @returns {any[]} */
  #look(key) {
    const { scene, marks, inside } = this.canvas;
    const index = Number(key.slice(1));
    const isSlot = key[0] === "n";
    /** @type {any} */ const mark = isSlot ? scene.slots.get(index) : scene.boxes.get(index);
    const isChosen = isSlot ? mark.node === marks.selected || marks.matches.nodes.has(mark.node) || marks.lit.has(index) : index === marks.box || inside.matches.has(index) || inside.lit.has(index) || mark?.changed > 0;
    const colours = (/** @type {string[]} */ [border, ground]) => [this.word(border), this.word(ground)];
    if (isChosen) return [true, ...colours(CHOSEN)];
    const differs = isSlot ? marks.differs.get(index) : inside.differ.get(index)?.[0];
    if (differs) return [true, ...colours(DIFFERENCES[differs.kind])];
    const name = isSlot ? Object.keys(LOOKS).find((each) => mark.state === each || mark.flags.includes(each) || (each === "member" && mark.member)) : mark?.waiting ? "waiting" : mark?.member ? "member" : "plain";
    const [border, ground] = colours(LOOKS[name]);
    const share = isSlot ? marks.heat.slots.get(index) : marks.heat.boxes.get(index);
    if (share === undefined) return [ATTENTION.has(name), border, ground];
    const [colour, part] = tintOf(share);
    return [ATTENTION.has(name), border, this.pixels.mix(this.word("--ex-node"), this.word(colour), part)];
  }

  /** Return the key of the item under a viewport point, or "". @param {number} x @param {number} y */
  at(x, y) {
    const { canvas, camera } = this;
    const [px, py, near] = [(x - camera.x) / camera.scale, (y - camera.y) / camera.scale, NEAR / camera.scale];
    let [best, least] = ["", near];
    for (const key of canvas.items.within([px, py, 0, 0])) {
      if (!canvas.stands(key)) continue;
      const [left, top, wide, high] = canvas.rect(key);
      const distance = Math.max(left - px, px - left - wide, top - py, py - top - high, 0);
      if (distance < least) [best, least] = [key, distance];
    }
    if (best) return best;
    for (const layer of [...canvas.depths].reverse()) {
      for (const key of layer.within([px, py, 0, 0])) if (canvas.stands(key) && holds(canvas.rect(key), px, py)) return key;
    }
    return "";
  }
}

const ATTENTION = new Set(["bad", "current", "new", "gone", "declined", "subject"]);

/** Rectangles and their colours in flat arrays, because every frame scans all of them. */
class Shapes {
  constructor() {
    /** @type {number[]} x, y, width, height of each */ this.at = [];
    /** @type {number[]} border and background of each */ this.words = [];
    /** @type {number[]} start x, y and end x, y of each edge */ this.ends = [];
  }

  add(/** @type {number[]} */ [x, y, wide, high], /** @type {number[]} */ ...[border, ground]) {
    this.at.push(x, y, wide, high);
    this.words.push(border, ground);
  }

  /** Return the indices of the shapes in a world rectangle. @param {number[]} sight @returns {number[]} */
  among(/** @type {number[]} */ [x, y, wide, high]) {
    const { at } = this;
    const indices = [];
    for (let place = 0; place < at.length; place += 4) {
      if (at[place] <= x + wide && at[place] + at[place + 2] >= x && at[place + 1] <= y + high && at[place + 1] + at[place + 3] >= y) indices.push(place / 4);
    }
    return indices;
  }
}

/** Whether a rectangle contains a point. */
function holds(/** @type {number[]} */ [left, top, wide, high], x, y) {
  return left <= x && x <= left + wide && top <= y && y <= top + high;
}
