// The graph as SVG: elements are kept from moment to moment, and only what changed is touched.

import { tallyText } from "../compare/differences.js";
import { calm, put, svg } from "../dom.js";
import { FrameView } from "./kernel_outlines.js";
import { BoxView, SlotView } from "./node.js";
import { PortNames } from "./port_names.js";
import { Tiles } from "./tiles.js";

const MOTION = 150;

/** Draws scenes on a placement. */
export class Canvas {
  /** @param {import("../data/recording.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.layers = Object.fromEntries(["open", "frames", "changed", "titles"].map((name) => [name, svg("g", { class: `ex-layer-${name}` })]));
    this.lines = new Tiles("ex-layer-edges");
    this.items = new Tiles("ex-layer-nodes");
    this.ports = new PortNames();
    const { open, frames, changed, titles } = this.layers;
    this.world = svg("g", { class: "ex-world" }, open, frames, this.lines.root, changed, titles, this.ports.root, this.items.root);
    this.root = svg("svg", { class: "ex-graph", role: "group", "aria-roledescription": "graph" }, this.world);
    /** @type {Map<number, SlotView>} */ this.slots = new Map();
    /** @type {Map<number, BoxView>} */ this.boxes = new Map();
    /** @type {Map<string, {path: SVGPathElement, state: string, segment: any, placement: any}>} */ this.edges = new Map();
    /** @type {Map<number, FrameView>} */ this.frames = new Map();
    this.spare = [];
  }

  /** Put everything where a placement has it. @param {import("../scene/compose.js").Placement} placement */
  place(placement) {
    this.placement = placement;
    for (const [box, rect] of placement.boxes) {
      if (box === placement.outermost) continue;
      const open = placement.composed.has(box);
      if (this.boxes.get(box)?.open !== open) {
        this.boxes.get(box)?.root.remove();
        this.boxes.set(box, new BoxView(this.trace, box, open));
      }
      const view = this.boxes.get(box);
      if (open) this.layers.open.append(view.root);
      else this.items.put(view.root, rect);
      view.place(rect);
    }
    for (const [box, view] of this.boxes) {
      if (placement.boxes.has(box) && box !== placement.outermost) continue;
      view.root.remove();
      this.boxes.delete(box);
    }
    for (const [slot, rect] of placement.slots) {
      const view = this.slots.get(slot);
      view?.place(rect);
      if (view?.root.isConnected) this.items.put(view.root, rect);
    }
  }

  /** Draw what some rectangles of the world hold, and what is near. @param {...number[]} sights */
  see(...sights) {
    const count = this.placement ? this.placement.slots.size + this.placement.boxes.size : 0;
    this.items.see(count, ...sights);
    this.lines.see(count, ...sights);
  }

  /** Keep an item drawn that is out of sight, so that it can have the focus. @param {string} key */
  hold(key) {
    this.items.hold(this.element(key));
  }

  /**
   * Show a scene; `motion` is +1 when this is a step forward, which moves edges visibly.
   * @param {import("../scene/scene.js").Scene} scene
   * @param {{selected: number, box: number, matches: Set<number>, heat: {slots: Map<number, number>, boxes: Map<number, number>}, lit: Map<number, string>, differs: Map<number, import("../compare/differences.js").Difference>}} marks lit: see gradient_links.js, differs: see differences.js
   */
  show(scene, marks, motion = 0) {
    this.#showSlots(scene, marks);
    const found = this.#foundInside(marks.matches);
    const lit = this.#litInside(scene, marks.lit);
    const differ = this.#differInside(marks.differs);
    for (const [box, view] of this.boxes) view.show(scene.boxes.get(box), marks.box === box, found.get(box) ?? 0, marks.heat.boxes.get(box), lit.get(box), tallyText(differ.get(box) ?? []));
    this.#showEdges(scene);
    this.ports.show(scene, this.placement);
    this.#showFrames(scene, marks.differs);
    if (motion > 0 && !calm()) this.#moveEdges(scene);
  }

  /** How many matches each closed box hides. */
  #foundInside(matches) {
    const found = new Map();
    for (const node of matches) {
      const box = this.placement.hiddenIn[this.trace.slotOf[node]] ?? -1;
      if (box >= 0) found.set(box, (found.get(box) ?? 0) + 1);
    }
    return found;
  }

  /** What each closed box hides of what is lit. */
  #litInside(scene, lit) {
    const found = new Map();
    for (const [slot, kind] of lit) {
      const box = this.placement.hiddenIn[slot] ?? -1;
      if (box >= 0 && scene.slots.has(slot)) found.set(box, found.get(box) ?? kind);
    }
    return found;
  }

  /** What differs inside each closed box. */
  #differInside(differs) {
    const found = new Map();
    for (const [slot, difference] of differs) {
      const box = this.placement.hiddenIn[slot] ?? -1;
      if (box < 0) continue;
      if (found.has(box)) found.get(box).push(difference);
      else found.set(box, [difference]);
    }
    return found;
  }

  #showSlots(scene, { selected, matches, heat, lit, differs }) {
    for (const [slot, rect] of this.placement.slots) {
      const mark = scene.slots.get(slot);
      let view = this.slots.get(slot);
      if (!mark) {
        if (view?.root.isConnected) view.root.remove();
        continue;
      }
      if (!view) {
        this.slots.set(slot, (view = new SlotView(this.trace, slot)));
        view.place(rect);
      }
      if (!view.root.isConnected) this.items.put(view.root, rect);
      view.show(mark, mark.node === selected, matches.has(mark.node), heat.slots.get(slot), lit.get(slot), differs.get(slot));
    }
    for (const [slot, view] of this.slots) {
      if (this.placement.slots.has(slot)) continue;
      view.root.remove();
      this.slots.delete(slot);
    }
  }

  #showEdges(scene) {
    for (const [key, drawn] of this.edges) {
      if (scene.edges.has(key)) continue;
      drawn.path.remove();
      this.spare.push(drawn.path);
      this.edges.delete(key);
    }
    for (const [key, edge] of scene.edges) {
      let drawn = this.edges.get(key);
      if (!drawn) this.edges.set(key, (drawn = { path: this.spare.pop() ?? svg("path"), state: "", segment: null, placement: null }));
      if (drawn.placement === this.placement && drawn.state === edge.state) continue;
      const segment = this.placement.segment(edge.box, edge.from, edge.to);
      if (drawn.segment !== segment) put(drawn.path, "d", pathText(segment));
      put(drawn.path, "class", `ex-edge ex-edge-${edge.state}`);
      drawn.segment = segment;
      drawn.placement = this.placement;
      drawn.state = edge.state;
      // What changes is drawn over what stays.
      if (edge.state !== "plain") this.layers.changed.append(drawn.path);
      else this.lines.put(drawn.path, (segment.extent ??= extent(segment.points)));
    }
  }

  #showFrames(scene, differs) {
    const wanted = new Set(scene.frames.map((frame) => frame.index));
    for (const [index, view] of this.frames) {
      if (wanted.has(index)) continue;
      view.root.remove();
      view.label.remove();
      this.frames.delete(index);
    }
    for (const frame of scene.frames) {
      let view = this.frames.get(frame.index);
      if (!view) {
        this.frames.set(frame.index, (view = new FrameView()));
        this.layers.frames.append(view.root);
        this.layers.titles.append(view.label);
      }
      const differences = frame.group.kind === "kernel" ? frame.slots.map((slot) => differs.get(slot)) : [];
      view.show(frame, scene, this.placement, differences.find((difference) => difference?.kind === "regrouped"));
    }
  }

  #moveEdges(scene) {
    for (const { before, after } of scene.moves) {
      if (before.length !== 1 || after.length !== 1) continue;
      const drawn = this.edges.get(after[0][3]);
      if (!drawn || !this.placement.composed.has(before[0][0])) continue;
      const [from, to] = alike(this.placement.segment(...before[0]), this.placement.segment(...after[0]));
      drawn.path.animate([{ d: `path("${from}")` }, { d: `path("${to}")` }], { duration: MOTION, easing: "ease-out" });
    }
  }

  /** The element of a node's slot ("n7") or a box ("b2"). @returns {SVGGElement | undefined} */
  element(key) {
    const index = Number(key.slice(1));
    return (key[0] === "n" ? this.slots.get(index) : this.boxes.get(index))?.root;
  }

  /** Where something stands. @returns {import("../scene/compose.js").Rect | undefined} */
  rect(key) {
    const index = Number(key.slice(1));
    return key[0] === "n" ? this.placement.slots.get(index) : this.placement.boxes.get(index);
  }
}

/** @param {import("../scene/compose.js").Segment & {d?: string}} segment */
function pathText(segment) {
  return (segment.d ??= curve(segment.points, segment.arrow));
}

/** The rectangle around control points. */
function extent(points) {
  const [xs, ys] = [points.filter((_, index) => index % 2 === 0), points.filter((_, index) => index % 2 === 1)];
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  return [left, top, Math.max(...xs) - left, Math.max(...ys) - top];
}

function curve(points, arrow) {
  const pairs = [];
  for (let index = 0; index < points.length; index += 2) pairs.push(`${points[index]} ${points[index + 1]}`);
  return `M${pairs[0]}C${pairs.slice(1).join(" ")}${arrow ? head(points) : ""}`;
}

/** An open arrow head, part of the path, so that no element needs an id. */
function head(points) {
  const [x, y] = points.slice(-2);
  let index = points.length - 4;
  while (index > 0 && Math.hypot(points[index] - x, points[index + 1] - y) < 1) index -= 2;
  const angle = Math.atan2(y - points[index + 1], x - points[index]);
  const wing = (turn) => `${(x - 7 * Math.cos(angle + turn)).toFixed(1)} ${(y - 7 * Math.sin(angle + turn)).toFixed(1)}`;
  return `M${wing(0.45)}L${x} ${y}L${wing(-0.45)}`;
}

/** Two paths with equally many points, so that one can turn into the other. */
function alike(one, other) {
  const long = Math.max(one.points.length, other.points.length);
  const fill = (points) => {
    const filled = [...points];
    while (filled.length < long) filled.push(...points.slice(-2));
    return filled;
  };
  return [curve(fill(one.points), other.arrow), curve(fill(other.points), other.arrow)];
}
