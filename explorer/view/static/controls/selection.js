// Selection of one node or box by the reader, and the matches of a search.

import { LEGIBLE } from "../canvas/camera.js";
import { around } from "../scene/outlines.js";

/** px around an item that is scrolled into view. */
const MARGIN = 22;

/** Selection of one view. */
export class Selection {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    /** a node, −1 for none */ this.node = -1;
    /** the second of two nodes, −1 for none */ this.other = -1;
    /** a box, −1 for none */ this.box = -1;
    /** a box instead of the second node, −1 for none */ this.otherBox = -1;
    /** @type {number[]} the values of the selected edge, which contain the selected one; empty if no edge is selected */ this.carried = [];
    /** @type {"" | import("../scene/lineage.js").TraceDirection} which side of the selected node is lit */ this.traceDirection = "";
    /** @type {import("../canvas/canvas.js").Matches} what a search found */ this.matches = { nodes: new Set(), hits: [] };
  }

  /** Select a node, −1 for none; `seek` opens the boxes around it and scrolls it into view. @param {number} node @param {number[]} [carried] the values of an edge, to select its value instead of the node */
  select(node, seek = false, carried = []) {
    const { view } = this;
    const changed = node !== this.node;
    this.node = node >= 0 && node < view.trace.count ? node : -1;
    this.carried = this.node < 0 ? [] : carried;
    this.other = this.otherBox = -1;
    this.box = -1;
    if (this.node < 0) this.traceDirection = "";
    if (seek && this.node >= 0) this.seek(this.node);
    else view.show();
    if (changed) view.callbacks.onSelect?.(this.node);
  }

  /** The node that represents the selected one at the current moment: itself or its replacement. */
  get standing() {
    const { node, view } = this;
    return node < 0 || view.trace.exists(node, view.now.position) ? node : view.trace.resolver(view.now.position)[node];
  }

  /** The slot of the selection, −1 for none. */
  get slot() {
    return this.node < 0 ? -1 : this.view.trace.slotOf[this.view.trace.origin(this.standing)];
  }

  /** The rectangle of the selection, or of the closed box that hides it. @returns {import("../scene/placement.js").Rect | undefined} */
  get rect() {
    if (this.box >= 0) return this.view.placement.boxes.get(this.box);
    return this.slot < 0 ? undefined : this.view.placement.shows(this.slot);
  }

  /** Return the decisions about the selected node or its replacement, in order. */
  decisions() {
    const { trace } = this.view;
    if (this.node < 0) return [];
    return [...new Set([...trace.decisionsOf(this.node), ...trace.decisionsOf(this.standing)])].sort((a, b) => a - b);
  }

  /** Open the boxes around a node and scroll it into view. @param {number} node */
  seek(node) {
    const { view } = this;
    const slot = view.trace.slotOf[view.trace.origin(node)];
    if (slot < 0) return view.show();
    view.opening.uncover(view.paths.around(slot), view.trace.nodes.body[node], () => {
      const rect = view.placement.shows(slot);
      if (rect) view.camera.reveal(around([rect], MARGIN));
      if (view.scene.slots.has(slot)) view.focus.set(`n${slot}`, false);
    });
  }

  /** Select a node and, if it does not exist now, go to a moment at which it exists. @param {number} node */
  visit(node) {
    const { trace, timeline, now } = this.view;
    const { born, gone } = trace.nodes;
    if (!trace.exists(node, now.position)) this.view.go(timeline.afterDecision(born[node] >= now.position ? born[node] : gone[node]));
    this.select(node, true);
  }

  /** Select the first value that contains a NaN and go to the moment at which it is computed. */
  visitFirstNaN() {
    const { firstNaN: node, kernelOf } = this.view.trace;
    if (node < 0) return;
    if (kernelOf[node] >= 0) this.view.goKernel(kernelOf[node]);
    this.visit(node);
  }

  /** Scroll the changes of a step into view by the minimal motion, and those of an entered whole stage if none is visible. The selection has priority in a new stage or if it is part of the change. @param {boolean} enters whether the stage is new */
  follow(enters) {
    const { scene, placement, camera, now } = this.view;
    const isStage = enters && now.whole;
    const slots = isStage ? this.#changedBy(now.stage) : scene.attention;
    const rects = [...new Set(slots.map((slot) => placement.shows(slot)).filter(Boolean))];
    rects.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
    const isSeen = ([x, y, wide, high]) => camera.shows([x, y, x + wide, y + high]);
    if (isStage && !rects.every(isSeen) && camera.whole(placement.size) >= LEGIBLE) camera.fit(placement.size);
    else if (rects.length && !(isStage && rects.some(isSeen))) camera.reveal(...rects.map((rect) => around([rect], MARGIN)));
    if (this.rect && (enters || scene.attention.includes(this.slot))) camera.reveal(around([this.rect], MARGIN));
  }

  /** Return the slots of the nodes that a stage's applied decisions changed. @param {number} stage */
  #changedBy(stage) {
    const { trace, timeline } = this.view;
    const { first, last } = timeline.stages[stage];
    const applied = trace.decisions.slice(first, last).filter(({ verdict }) => verdict === "applied");
    return [...new Set(applied.flatMap(({ subjects, produced }) => [...produced, ...subjects]).map((node) => trace.slotOf[node]))].filter((slot) => slot >= 0);
  }

  /** Whether the selection is completely visible. */
  get isInSight() {
    return Boolean(this.rect) && this.view.camera.shows(around([this.rect], 0));
  }

  /** Scroll the selection into view by the minimal motion. */
  reveal() {
    if (this.rect) this.view.camera.reveal(around([this.rect], MARGIN));
  }

  /** Select a second node or box in addition to the first, or deselect it. The panel explains why the two are not one kernel. @param {string} key "n7", "b2" */
  pair(key) {
    const { view } = this;
    if (!key || (this.node < 0 && this.box < 0)) return this.pick(key);
    const [node, box] = key[0] === "n" ? [view.scene.slots.get(Number(key.slice(1))).node, -1] : [-1, Number(key.slice(1))];
    const isKnown = node >= 0 ? node === this.other || node === this.node : box === this.otherBox || box === this.box;
    [this.other, this.otherBox] = isKnown ? [-1, -1] : [node, box];
    view.focus.set(key, true);
    view.show();
  }

  /** Select nothing if two nodes or boxes are selected, because the answer about them is the same at every stage. */
  endPair() {
    if (this.other >= 0 || this.otherBox >= 0) this.select(-1);
  }

  /** Select by a click on the canvas. @param {string} key "n7", "b2" or "" */
  pick(key) {
    const { view } = this;
    if (key) view.focus.set(key, true);
    if (key[0] === "n") return this.select(view.scene.slots.get(Number(key.slice(1))).node);
    this.#choose(key ? Number(key.slice(1)) : -1);
    view.show();
  }

  /** Select the value that an edge carries; of several ones, the one after the selected one. @param {string} key of an edge */
  pickEdge(key) {
    const { view } = this;
    const values = view.edgeValues.values(key, view.scene);
    const next = this.isValue ? values[(values.indexOf(this.node) + 1) % values.length] : values[0];
    this.select(next, false, values);
  }

  /** Whether the selection is the value that the node computes, with its edges, instead of the node. */
  get isValue() {
    return this.carried.length > 0;
  }

  /** Select the value of the selected node, or the node again. */
  turnValue() {
    this.select(this.node, false, this.isValue ? [] : [this.node]);
  }

  /** Highlight everything that leads to the selected node or is computed from it, or end this if it is on. @param {"" | import("../scene/lineage.js").TraceDirection} direction */
  trace(direction) {
    this.traced(this.traceDirection === direction ? "" : direction);
  }

  /** @param {"" | import("../scene/lineage.js").TraceDirection} direction */
  traced(direction) {
    this.traceDirection = this.node < 0 ? "" : direction;
    this.view.show();
  }

  #choose(box) {
    const changed = this.node >= 0;
    this.node = -1;
    this.carried = [];
    this.traceDirection = "";
    this.other = this.otherBox = -1;
    this.box = box;
    if (changed) this.view.callbacks.onSelect?.(-1);
    this.view.callbacks.onBox?.(box);
  }

  /** Select a box, open the boxes around it and scroll it into view. @param {number} box */
  visitBox(box) {
    const { view } = this;
    this.#choose(box);
    view.opening.uncover(view.paths.outside(box), view.body, () => {
      const rect = view.placement.boxes.get(box);
      view.focus.key = `b${box}`;
      view.focus.rove();
      if (rect && box !== view.placement.outermost) view.camera.reveal(around([rect], MARGIN));
    });
  }

  /** Mark the matches of a search. @param {number[]} nodes the found nodes and the nodes of found operators @param {import("./search.js").Hit[]} hits the listed operators and nodes */
  mark(nodes, hits) {
    this.matches = { nodes: new Set(nodes), hits };
    this.view.show();
  }
}
