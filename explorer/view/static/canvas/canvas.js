// The graph as SVG. Elements are created when they become visible and kept from moment to moment; only changed ones are updated.

import { tallyText } from "../compare/differences.js";
import { counted, grouped } from "../data/number_format.js";
import { calm, html, put, svg } from "../dom.js";
import { around } from "../scene/outlines.js";
import { alike, crossCenter, crossText, extentOf, pathText } from "./edge_path.js";
import { EdgeLabels } from "./edge_labels.js";
import { FrameView } from "./kernel_outlines.js";
import { BoxView, SlotView } from "./node.js";
import { PortNames } from "./port_names.js";
import { Tiles } from "./tiles.js";

const MOTION = 150;
/** px of the side of the area around a ✗ that can be clicked */
const CROSS = 24;

/**
 * @typedef {{nodes: Set<number>, hits: import("../controls/search.js").Hit[]}} Matches what a search found: nodes to highlight, and the listed operators and nodes
 * @typedef {{selected: number, other: number, box: number, otherBox: number, matches: Matches, heat: {slots: Map<number, import("../scene/heat.js").Share>, boxes: Map<number, import("../scene/heat.js").Share>}, lit: Map<number, string>, along?: Set<string>, veiled?: Set<string>, differs: Map<number, import("../compare/differences.js").Difference>}} Marks lit: see gradient_links.js; veiled: edges that would reveal an answer; differs: see differences.js
 */

/** Drawing of scenes at the positions of a placement. */
export class Canvas {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.items = new Tiles("ex-layer-nodes", (key) => (key[0] === "n" ? this.#slot(Number(key.slice(1))) : this.#box(Number(key.slice(1)))));
    this.lines = new Tiles("ex-layer-edges", (key) => this.#edge(key));
    this.changed = new Tiles("ex-layer-changed", (key) => this.#edge(key));
    this.outlines = new Tiles("ex-layer-frames", (key) => this.frame(Number(key)).root);
    this.titles = new Tiles("ex-layer-titles", (key) => (key[0] === "b" ? this.#box(Number(key.slice(1)), true) : this.frame(Number(key)).label));
    /** @type {Tiles[]} depth → layer of open boxes; inner boxes are drawn over outer ones */ this.depths = [];
    this.open = html("div", { class: "ex-layer-open" });
    this.crosses = new Tiles("ex-layer-crosses", (key) => this.#cross(key));
    this.ports = new PortNames();
    this.labels = new EdgeLabels(trace);
    /** key of the edge under the pointer */ this.pointed = "";
    const layers = [this.open, this.outlines.root, this.lines.root, this.changed.root, this.titles.root, this.crosses.root, this.ports.root, this.labels.tiles.root, this.items.root];
    this.root = html("div", { class: "ex-graph", role: "application", "aria-roledescription": "graph" }, ...layers);
    /** @type {Map<number, Tiles>} the layer of each visible box */ this.layerOf = new Map();
    /** @type {Map<number, SlotView>} */ this.slots = new Map();
    /** @type {Map<number, BoxView>} */ this.boxes = new Map();
    /** @type {Map<string, {path: SVGPathElement | null, edge: any, segment: any, placement: any, tiles: Tiles}>} */ this.edges = new Map();
    /** @type {Map<number, FrameView>} */ this.frames = new Map();
    /** @type {Map<number, import("../scene/frames.js").Frame>} */ this.framed = new Map();
  }

  *#layers() {
    yield* [this.items, this.lines, this.changed, this.outlines, this.titles, this.crosses, this.labels.tiles];
    yield* this.depths;
  }

  /** Move everything to the positions of a placement; the next scene is drawn there. @param {import("../scene/placement.js").Placement} placement */
  place(placement) {
    this.placement = placement;
    for (const layer of this.#layers()) layer.pause(this.count);
    const depths = new Map([[placement.outermost, -1]]);
    for (const [box, rect] of placement.boxes) {
      if (box === placement.outermost) continue;
      const depth = depths.get(this.trace.layout.boxes[box].parent) + 1;
      depths.set(box, depth);
      const layer = placement.composed.has(box) ? this.#depth(depth) : this.items;
      if (this.layerOf.get(box) !== layer) this.layerOf.get(box)?.drop(`b${box}`);
      this.layerOf.set(box, layer);
      layer.put(`b${box}`, rect);
      if (layer === this.items) this.titles.drop(`b${box}`);
      else this.titles.put(`b${box}`, rect);
    }
    for (const [slot, rect] of placement.slots) this.items.put(`n${slot}`, rect);
    for (const [box, layer] of this.layerOf) {
      if (placement.boxes.has(box) && box !== placement.outermost) continue;
      layer.drop(`b${box}`);
      this.titles.drop(`b${box}`);
      this.layerOf.delete(box);
      this.boxes.delete(box);
    }
    for (const key of this.items.where.keys()) {
      if (key[0] !== "n" || placement.slots.has(Number(key.slice(1)))) continue;
      this.items.drop(key);
      this.slots.delete(Number(key.slice(1)));
    }
  }

  #depth(depth) {
    while (this.depths.length <= depth) {
      const layer = new Tiles("ex-layer-depth", (key) => this.#box(Number(key.slice(1))));
      layer.pause(this.count);
      this.depths.push(layer);
      this.open.append(layer.root);
    }
    return this.depths[depth];
  }

  /** Number of items, visible or not. */
  get count() {
    return this.placement ? this.placement.slots.size + this.placement.boxes.size : 0;
  }

  /** Draw the items in or near some world rectangles. @param {...number[]} sights */
  see(...sights) {
    for (const layer of this.#layers()) layer.see(this.count, ...sights);
  }

  /** Keep an item drawn while it is not visible, so that it can have the focus. @param {string} key */
  hold(key) {
    for (const layer of [this.items, ...this.depths]) layer.hold(key);
  }

  /** Whether an item is on the canvas, visible or not, and has content now. @param {string} key */
  stands(key) {
    const index = Number(key.slice(1));
    if (key[0] === "n") return this.placement.slots.has(index) && this.scene.slots.has(index);
    return key[0] === "b" && this.layerOf.has(index) && !this.scene.boxes.get(index)?.empty;
  }

  /**
   * Show a scene; `motion` is +1 for a step forward, which animates edges.
   * @param {import("../scene/scene.js").Scene} scene @param {Marks} marks
   */
  show(scene, marks, motion = 0) {
    const isStep = scene.changes.since === this.scene?.number && this.shown === this.placement && areAlike(marks, this.marks);
    this.scene = scene;
    this.marks = marks;
    this.shown = this.placement;
    if (isStep) this.#touch(scene);
    else this.#begin(scene, marks);
    put(this.root, "aria-label", this.#tally());
    if (motion > 0 && !calm()) this.#moveEdges(scene);
  }

  /** Draw all visible items. */
  #begin(scene, marks) {
    this.inside = { matches: this.#matchesInside(marks.matches), lit: this.#litInside(scene, marks.lit), differ: this.#differInside(marks.differs) };
    for (const [key, drawn] of this.edges) {
      if (!scene.edges.has(key)) this.#dropEdge(key, drawn);
    }
    for (const [key, edge] of scene.edges) this.#sortEdge(key, edge);
    for (const key of [...this.outlines.where.keys()]) if (!scene.frames.has(Number(key))) this.#dropFrame(Number(key));
    this.framed = scene.frames;
    for (const frame of scene.frames.values()) this.#sortFrame(frame);
    this.labels.begin(scene, this.placement);
    for (const layer of this.#layers()) layer.renew();
    this.ports.show(scene, this.placement);
  }

  /** Draw the visible items that differ from the previous scene. */
  #touch(scene) {
    const { changes, edges, frames } = scene;
    this.labels.touch(scene);
    for (const slot of changes.slots) this.items.touch(`n${slot}`);
    for (const box of changes.boxes) for (const layer of [this.layerOf.get(box), this.titles]) layer?.touch(`b${box}`);
    for (const key of changes.edges) {
      const edge = edges.get(key);
      if (edge) this.#sortEdge(key, edge);
      else if (this.edges.has(key)) this.#dropEdge(key, this.edges.get(key));
      for (const tiles of [this.edges.get(key)?.tiles, this.crosses]) tiles?.touch(key);
    }
    for (const index of changes.frames) {
      const frame = frames.get(index);
      if (frame) this.#sortFrame(frame);
      else this.#dropFrame(index);
    }
    // An outline also depends on non-members next to its members, which appear and disappear.
    const isFramed = changes.slots.size > 0 || changes.frames.size > 0;
    for (const layer of this.#layers()) layer.renew(!isFramed || (layer !== this.outlines && layer !== this.titles));
    if (changes.edges.size) this.ports.show(scene, this.placement);
  }

  /** Describe the number of items on the canvas, because items that are not visible have no elements for a screen reader to count. */
  #tally() {
    const { nodes, boxes } = this.scene.drawn;
    return [nodes && counted(nodes, "node"), boxes && counted(boxes, "closed box", "closed boxes")].filter(Boolean).join(" and ") || "nothing";
  }

  /** Say for each closed box how many results of a search it hides, or that it is one itself. @param {Matches} matches @returns {Map<number, string>} */
  #matchesInside({ hits }) {
    const counts = new Map();
    const found = new Set();
    for (const { box, node } of hits) {
      const closed = box === undefined ? (this.placement.hiddenIn[this.trace.slotOf[node]] ?? -1) : this.#closed(box);
      if (closed < 0) continue;
      counts.set(closed, (counts.get(closed) ?? 0) + 1);
      if (closed === box) found.add(box);
    }
    return new Map([...counts].map(([box, count]) => [box, found.has(box) ? "found" : `${grouped(count)} found inside`]));
  }

  /** Return the closed box that is or hides a box, or −1. @param {number} box */
  #closed(box) {
    const { boxes, composed } = this.placement;
    while (box >= 0 && (composed.has(box) || !boxes.has(box))) box = this.trace.layout.boxes[box].parent;
    return box;
  }

  /** Return the relation of the lit slots inside each closed box. */
  #litInside(scene, lit) {
    const relations = new Map();
    for (const [slot, relation] of lit) {
      const box = this.placement.hiddenIn[slot] ?? -1;
      if (box >= 0 && scene.slots.has(slot)) relations.set(box, relations.get(box) ?? relation);
    }
    return relations;
  }

  /** Return the differences inside each closed box. */
  #differInside(differs) {
    const differences = new Map();
    for (const [slot, difference] of differs) {
      const box = this.placement.hiddenIn[slot] ?? -1;
      if (box < 0) continue;
      if (differences.has(box)) differences.get(box).push(difference);
      else differences.set(box, [difference]);
    }
    return differences;
  }

  #slot(slot) {
    const { selected, other, matches, heat, lit, differs } = this.marks;
    const mark = this.scene.slots.get(slot);
    if (!mark) return null;
    let view = this.slots.get(slot);
    if (!view) this.slots.set(slot, (view = new SlotView(this.trace, slot)));
    view.place(this.placement.slots.get(slot));
    view.show(mark, this.placement, mark.node === selected || mark.node === other, matches.nodes.has(mark.node), heat.slots.get(slot), lit.get(slot), differs.get(slot));
    return view.root;
  }

  /** Draw a box, or the title of an open box, which is drawn over edges. @param {number} box */
  #box(box, title = false) {
    const open = this.placement.composed.has(box);
    let view = this.boxes.get(box);
    if (view?.open !== open) this.boxes.set(box, (view = new BoxView(this.trace, box, open)));
    view.place(this.placement.boxes.get(box));
    const { matches, lit, differ } = this.inside;
    view.show(this.scene.boxes.get(box), this.marks.box === box || this.marks.otherBox === box, matches.get(box) ?? "", this.marks.heat.boxes.get(box), lit.get(box), tallyText(differ.get(box) ?? []));
    return title ? view.label : view.root;
  }

  /** Put an edge into its layer; changing edges are drawn over the others. */
  #sortEdge(key, edge) {
    const tiles = edge.state === "plain" ? this.lines : this.changed;
    const drawn = this.edges.get(key);
    if (drawn?.placement === this.placement && drawn.tiles === tiles) drawn.edge = edge;
    else {
      const segment = this.placement.segment(key);
      if (drawn && drawn.tiles !== tiles) drawn.tiles.drop(key);
      this.edges.set(key, { path: drawn?.path ?? null, segment, edge, tiles, placement: this.placement });
      tiles.put(key, extentOf(segment));
    }
    const { segment } = this.edges.get(key);
    const [x, y] = crossCenter(segment);
    if (edge.state === "declined" && segment.arrow) this.crosses.put(key, [x, y, 0, 0]);
    else this.crosses.drop(key);
  }

  /** Whether an open box has only its background at a point of the window: outside its sign and title. @param {number} box */
  isBehind(box, x, y) {
    const view = this.boxes.get(box);
    if (!view?.open) return false;
    const { left, right, bottom } = view.name.getBoundingClientRect();
    return x > right || y > bottom || right === left;
  }

  /** Highlight the edge under the pointer, "" for none. @param {string} key */
  point(key) {
    if (key === this.pointed) return;
    const before = this.edges.get(this.pointed)?.path;
    this.pointed = key;
    before?.classList.remove("ex-pointed");
    this.edges.get(key)?.path?.classList.add("ex-pointed");
    this.root.parentElement.classList.toggle("ex-on-edge", key !== "");
  }

  #dropEdge(key, drawn) {
    drawn.tiles.drop(key);
    this.crosses.drop(key);
    this.edges.delete(key);
  }

  #edge(key) {
    const drawn = this.edges.get(key);
    drawn.path ??= svg("path");
    put(drawn.path, "d", pathText(drawn.segment));
    put(drawn.path, "class", `ex-edge ex-edge-${drawn.edge.state}${this.marks.along?.has(key) ? " ex-along" : ""}${this.marks.veiled?.has(key) ? " ex-veiled" : ""}${key === this.pointed ? " ex-pointed" : ""}`);
    return drawn.path;
  }

  /** Draw the ✗ of a declined edge, with an area to click around it. */
  #cross(key) {
    const { segment, edge } = this.edges.get(key);
    const [x, y] = crossCenter(segment);
    const names = edge.apart.map((slot) => this.trace.label(this.scene.slots.get(slot).node));
    const area = svg("rect", { class: "ex-cross-area", x: x - CROSS / 2, y: y - CROSS / 2, width: CROSS, height: CROSS });
    return svg("g", { class: "ex-cross", "data-edge": key }, svg("title", {}, `why are ${names.join(" and ")} not one kernel?`), area, svg("path", { class: "ex-edge ex-edge-declined", d: crossText([x, y]) }));
  }

  /** Put the outline of a kernel or batch into its layer. */
  #sortFrame(frame) {
    const { slots, boxes } = this.placement;
    const [left, top, right, bottom] = around([...frame.slots.map((slot) => slots.get(slot)), ...frame.boxes.map((box) => boxes.get(box))]);
    for (const layer of [this.outlines, this.titles]) layer.put(String(frame.index), [left, top, right - left, bottom - top]);
  }

  #dropFrame(index) {
    for (const layer of [this.outlines, this.titles]) layer.drop(String(index));
    this.frames.delete(index);
  }

  /** Draw the outline of a group in the current scene. @param {number} index */
  frame(index) {
    let view = this.frames.get(index);
    if (!view) this.frames.set(index, (view = new FrameView()));
    const frame = this.framed.get(index);
    const differences = frame.group.kind === "kernel" ? frame.slots.map((slot) => this.marks.differs.get(slot)) : [];
    view.show(frame, this.scene, this.placement, differences.find((difference) => difference?.kind === "regrouped"));
    return view;
  }

  #moveEdges(scene) {
    for (const { before, after } of scene.moves) {
      if (before.length !== 1 || after.length !== 1) continue;
      const path = this.edges.get(after[0].key)?.path;
      if (!path || !this.placement.composed.has(before[0].box)) continue;
      const [from, to] = alike(this.placement.segment(before[0].key), this.placement.segment(after[0].key));
      path.animate([{ d: `path("${from}")` }, { d: `path("${to}")` }], { duration: MOTION, easing: "ease-out" });
    }
  }

  /** Return the element of a slot ("n7") or a box ("b2"). @returns {SVGGElement | undefined} */
  element(key) {
    const index = Number(key.slice(1));
    return (key[0] === "n" ? this.slots.get(index) : this.boxes.get(index))?.root;
  }

  /** Return the rectangle of an item. @returns {import("../scene/placement.js").Rect | undefined} */
  rect(key) {
    const index = Number(key.slice(1));
    return key[0] === "n" ? this.placement.slots.get(index) : this.placement.boxes.get(index);
  }
}

/** Whether two sets of marks are drawn alike. @param {Marks} first @param {Marks} second */
function areAlike(first, second) {
  const isSame = ["selected", "other", "box", "otherBox", "matches", "heat", "along", "veiled"].every((name) => first[name] === second[name]);
  const isEmpty = first.differs.size === 0 && second.differs.size === 0;
  const isLit = first.lit === second.lit || (first.lit.size === second.lit.size && [...first.lit].every(([slot, relation]) => second.lit.get(slot) === relation));
  return isSame && isEmpty && isLit;
}
