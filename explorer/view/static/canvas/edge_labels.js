// Edge labels: the types of values that no node shows, drawn when zoomed in.

import { put, say, svg } from "../dom.js";
import { flowsRight } from "../scene/direction.js";
import { Tiles } from "./tiles.js";

/* global EDGE_LABEL */
const { height: HIGH, aside: ASIDE } = EDGE_LABEL;

/** States of edges without a label. */
const HIDING = new Set(["gone", "was", "declined"]);

/** Drawing of the labels of a scene's edges. */
export class EdgeLabels {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.tiles = new Tiles("ex-layer-labels", (key) => this.#label(key));
    /** @type {Map<string, SVGTextElement>} */ this.texts = new Map();
    /** @type {any} */ this.placement = null;
    /** @type {Map<string, string[]>} a node ("n7") or a closed box ("b2") → the labels of its results */ this.about = new Map();
  }

  /** Enter the labels of a placement and mark all to be drawn. @param {import("../scene/scene.js").Scene} scene @param {import("../scene/placement.js").Placement} placement */
  begin(scene, placement) {
    this.scene = scene;
    if (this.placement === placement) return;
    for (const key of this.placement?.labels.keys() ?? []) this.tiles.drop(key);
    this.placement = placement;
    this.about.clear();
    for (const [key, { point: [x, y], slot }] of placement.labels) {
      this.tiles.put(key, [x, y, 0, 0]);
      const holder = placement.hiddenIn[slot];
      const item = holder < 0 ? `n${slot}` : `b${holder}`;
      this.about.set(item, [...(this.about.get(item) ?? []), key]);
    }
  }

  /** Mark the labels that a step changes to be drawn again. @param {import("../scene/scene.js").Scene} scene */
  touch(scene) {
    const { edges, slots, boxes } = scene.changes;
    this.scene = scene;
    for (const key of edges) this.tiles.touch(key);
    for (const slot of slots) for (const key of this.about.get(`n${slot}`) ?? []) this.tiles.touch(key);
    for (const box of boxes) for (const key of this.about.get(`b${box}`) ?? []) this.tiles.touch(key);
  }

  #label(key) {
    const { point: [x, y], side, slot } = this.placement.labels.get(key);
    const edge = this.scene.edges.get(key);
    const mark = this.scene.slots.get(slot);
    // A declined edge has its mark at this position.
    if (!mark || !edge || HIDING.has(edge.state) || this.#isTold(slot, mark)) return null;
    let text = this.texts.get(key);
    if (!text) this.texts.set(key, (text = svg("text", { class: "ex-label", "aria-hidden": "true" })));
    const right = flowsRight(this.trace.layout);
    put(text, "x", right ? x : x + side * ASIDE);
    put(text, "y", right ? y - side * (ASIDE + HIGH / 2) + 3 : y + 3);
    put(text, "text-anchor", right ? "middle" : side > 0 ? "start" : "end");
    say(text, this.trace.layout.texts[this.trace.layout.slots[slot].text[this.trace.placeOf[mark.node]]][1]);
    return text;
  }

  /** Whether the node, or the operator that represents it, already shows the type or the value. */
  #isTold(slot, mark) {
    const box = this.placement.hiddenIn[slot];
    return box === -1 ? !mark.second || mark.second.startsWith("= ") : this.trace.isOperator(box) && !this.scene.boxes.get(box)?.second;
  }
}
