// Selection: one node or one box that a reader chose, and the matches of a search.

import { LEGIBLE } from "../canvas/camera.js";
import { around } from "../scene/outlines.js";

/** px around an item that is brought into sight. */
const MARGIN = 22;

/** Selection of one view. */
export class Selection {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    /** a node, −1 for none */ this.node = -1;
    /** the second of two nodes, −1 for none */ this.other = -1;
    /** a box, −1 for none */ this.box = -1;
    /** a box in the place of the second node, −1 for none */ this.otherBox = -1;
    /** @type {"" | import("../scene/lineage.js").Way} which side of the selected node is lit */ this.way = "";
    /** @type {Set<number>} nodes that a search found */ this.matches = new Set();
  }

  /** Select a node, −1 for none; `seek` opens the boxes around it and brings it into sight. @param {number} node */
  select(node, seek = false) {
    const { view } = this;
    const changed = node !== this.node;
    this.node = node >= 0 && node < view.trace.count ? node : -1;
    this.other = this.otherBox = -1;
    this.box = -1;
    if (this.node < 0) this.way = "";
    if (seek && this.node >= 0) this.#seek(this.node);
    else view.show();
    if (changed) view.callbacks.onSelect?.(this.node);
  }

  /** The node that stands for the selected one at the present moment: itself, or its replacement. */
  get standing() {
    const { node, view } = this;
    return node < 0 || view.trace.exists(node, view.now.position) ? node : view.trace.resolver(view.now.position)[node];
  }

  /** The slot of the selection, −1 for none. */
  get slot() {
    return this.node < 0 ? -1 : this.view.trace.slotOf[this.view.trace.origin(this.standing)];
  }

  /** Where it is drawn: its own place, or that of the closed box that hides it. @returns {import("../scene/placement.js").Rect | undefined} */
  get rect() {
    if (this.box >= 0) return this.view.placement.boxes.get(this.box);
    return this.slot < 0 ? undefined : this.view.placement.shows(this.slot);
  }

  /** The decisions about the selected node, or about its replacement, in order. */
  decisions() {
    const { trace } = this.view;
    if (this.node < 0) return [];
    return [...new Set([...trace.decisionsOf(this.node), ...trace.decisionsOf(this.standing)])].sort((a, b) => a - b);
  }

  #seek(node) {
    const { view } = this;
    const slot = view.trace.slotOf[view.trace.origin(node)];
    if (slot < 0) return view.show();
    view.opening.uncover(view.paths.around(slot), view.trace.nodes.body[node], () => {
      const rect = view.placement.shows(slot);
      if (rect) view.camera.reveal(around([rect], MARGIN));
      if (view.scene.slots.has(slot)) view.focus.set(`n${slot}`, false);
    });
  }

  /** Select a node and go to a moment at which it is there, if it is not. @param {number} node */
  visit(node) {
    const { trace, timeline, now } = this.view;
    const { born, gone } = trace.nodes;
    if (!trace.exists(node, now.position)) this.view.go(timeline.afterDecision(born[node] >= now.position ? born[node] : gone[node]));
    this.select(node, true);
  }

  /** Select the first value that holds a NaN, at the moment at which it is computed. */
  visitFirstNaN() {
    const { firstNaN: node, kernelOf } = this.view.trace;
    if (node < 0) return;
    if (kernelOf[node] >= 0) this.view.goKernel(kernelOf[node]);
    this.visit(node);
  }

  /** Bring the changes of a step, or of a stage that is entered as a whole, into sight by the least motion; in another stage, or as part of the change, the selection comes first. @param {boolean} enters the stage is another */
  follow(enters) {
    const { scene, placement, camera, now } = this.view;
    const isStage = enters && now.whole;
    const slots = isStage ? this.#changedBy(now.stage) : scene.attention;
    const rects = [...new Set(slots.map((slot) => placement.shows(slot)).filter(Boolean))];
    rects.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
    const isSeen = ([x, y, wide, high]) => camera.shows([x, y, x + wide, y + high]);
    if (isStage && !rects.every(isSeen) && camera.whole(placement.size) >= LEGIBLE) camera.fit(placement.size);
    else if (rects.length) camera.reveal(...rects.map((rect) => around([rect], MARGIN)));
    if (this.rect && (enters || scene.attention.includes(this.slot))) camera.reveal(around([this.rect], MARGIN));
  }

  /** The slots of the nodes that the applied decisions of a stage changed. @param {number} stage */
  #changedBy(stage) {
    const { trace, timeline } = this.view;
    const { first, last } = timeline.stages[stage];
    const applied = trace.decisions.slice(first, last).filter(({ verdict }) => verdict === "applied");
    return [...new Set(applied.flatMap(({ subjects, produced }) => [...produced, ...subjects]).map((node) => trace.slotOf[node]))].filter((slot) => slot >= 0);
  }

  /** Whether all of what is selected is in sight. */
  get isInSight() {
    return Boolean(this.rect) && this.view.camera.shows(around([this.rect], 0));
  }

  /** Bring what is selected into sight, by the least motion. */
  reveal() {
    if (this.rect) this.view.camera.reveal(around([this.rect], MARGIN));
  }

  /** Select a second node or box beside the first, or let it go: the panel says why these two are not one. @param {string} key "n7", "b2" */
  pair(key) {
    const { view } = this;
    if (!key || (this.node < 0 && this.box < 0)) return this.pick(key);
    const [node, box] = key[0] === "n" ? [view.scene.slots.get(Number(key.slice(1))).node, -1] : [-1, Number(key.slice(1))];
    const isKnown = node >= 0 ? node === this.other || node === this.node : box === this.otherBox || box === this.box;
    [this.other, this.otherBox] = isKnown ? [-1, -1] : [node, box];
    view.focus.set(key, true);
    view.show();
  }

  /** Select by a click on the canvas. @param {string} key "n7", "b2" or "" */
  pick(key) {
    const { view } = this;
    if (key) view.focus.set(key, true);
    if (key[0] === "n") return this.select(view.scene.slots.get(Number(key.slice(1))).node);
    this.#choose(key ? Number(key.slice(1)) : -1);
    view.show();
  }

  /** Light everything that leads to the selected node, or all that is computed from it; again: end it. @param {"" | import("../scene/lineage.js").Way} way */
  trace(way) {
    this.traced(this.way === way ? "" : way);
  }

  /** @param {"" | import("../scene/lineage.js").Way} way */
  traced(way) {
    this.way = this.node < 0 ? "" : way;
    this.view.show();
  }

  #choose(box) {
    const changed = this.node >= 0;
    this.node = -1;
    this.way = "";
    this.other = this.otherBox = -1;
    this.box = box;
    if (changed) this.view.callbacks.onSelect?.(-1);
    this.view.callbacks.onBox?.(box);
  }

  /** Select a box, open the boxes around it and bring it into sight. @param {number} box */
  visitBox(box) {
    const { view } = this;
    this.#choose(box);
    view.opening.uncover(view.paths.outside(box), view.body, () => {
      const rect = view.placement.boxes.get(box);
      if (rect && box !== view.placement.outermost) view.camera.reveal(around([rect], MARGIN));
    });
  }

  /** Mark the matches of a search. @param {number[]} nodes */
  mark(nodes) {
    this.matches = new Set(nodes);
    this.view.show();
  }
}
