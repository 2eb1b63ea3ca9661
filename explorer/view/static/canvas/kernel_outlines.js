// Fused kernels and batches: a frame around their members' places.

import { SIGNS } from "../compare/differences.js";
import { put, say, svg } from "../dom.js";
import { grouped } from "../data/number_format.js";

const PAD = 10;

/** Left, top, right, bottom around some rectangles. @param {import("../scene/compose.js").Rect[]} rects */
export function around(rects, pad = PAD) {
  return [
    Math.min(...rects.map(([x]) => x)) - pad,
    Math.min(...rects.map(([, y]) => y)) - pad,
    Math.max(...rects.map(([x, , w]) => x + w)) + pad,
    Math.max(...rects.map(([, y, , h]) => y + h)) + pad,
  ];
}

const touches = ([left, top, right, bottom], [x, y, w, h]) => x < right && x + w > left && y < bottom && y + h > top;
const holds = ([x, y, w, h], [left, top, right, bottom]) => x <= left && y <= top && right <= x + w && bottom <= y + h;

/** Draws the frame of one group: a rectangle where it holds its members only, else a rounded shape around each; kernel_outlines.py is its twin. */
export class FrameView {
  constructor() {
    this.shape = svg("path", { class: "ex-frame" });
    this.title = svg("text", { class: "ex-frame-title" });
    this.number = svg("text", { class: "ex-number" });
    this.root = svg("g", {}, this.shape);
    this.label = svg("g", {}, this.title, this.number);
  }

  /** @param {import("../scene/scene.js").Frame} frame @param {import("../scene/scene.js").Scene} scene @param {import("../scene/compose.js").Placement} placement @param {boolean} [differs] the other of two graphs computes it in another kernel */
  show(frame, scene, placement, differs = false) {
    const members = `${frame.slots}|${frame.boxes}`;
    if (this.placement !== placement || this.members !== members) this.#outline(frame, scene, placement);
    this.placement = placement;
    this.members = members;
    put(this.shape, "class", `ex-frame ex-${frame.state} ex-${frame.group.kind}${differs ? " ex-differs-regrouped" : ""}`);
    const [x, y, , bottom] = this.bounds;
    say(this.title, (differs ? `${SIGNS.regrouped} ` : "") + frame.group.label);
    put(this.title, "x", x + 2);
    put(this.title, "y", y - 5);
    put(this.label, "class", `ex-frame-label ex-${frame.state}`);
    say(this.number, frame.number ? grouped(frame.number) : "");
    put(this.number, "x", x - 8);
    put(this.number, "y", (y + bottom) / 2 + 4);
  }

  #outline(frame, scene, placement) {
    const inside = new Set([...frame.slots.map((slot) => placement.slots.get(slot)), ...frame.boxes.map((box) => placement.boxes.get(box))]);
    const rects = [...inside];
    this.bounds = around(rects);
    const others = [...placement.slots.values()];
    let cuts = false;
    for (const [box, rect] of placement.boxes) {
      if (placement.composed.has(box)) cuts ||= touches(this.bounds, rect) && !holds(rect, this.bounds);
      else if (!scene.boxes.get(box)?.empty) others.push(rect);
    }
    const parted = cuts || others.some((rect) => !inside.has(rect) && touches(this.bounds, rect));
    put(this.shape, "d", parted ? rects.map((rect) => roundedRect(around([rect], 7))).join("") : roundedRect(this.bounds));
  }
}

function roundedRect([left, top, right, bottom], r = 14) {
  return `M${left + r} ${top}H${right - r}a${r} ${r} 0 0 1 ${r} ${r}V${bottom - r}a${r} ${r} 0 0 1 ${-r} ${r}H${left + r}a${r} ${r} 0 0 1 ${-r} ${-r}V${top + r}a${r} ${r} 0 0 1 ${r} ${-r}z`;
}
