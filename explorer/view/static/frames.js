// Fused kernels and batches: a frame around their members' places.

import { put, say, shorten, svg, visible } from "./dom.js";
import { grouped } from "./reason.js";

const PAD = 10;
const TITLE = 'bold 11px "DejaVu Sans", Verdana, system-ui, sans-serif';

/** Left, top, right, bottom around some rectangles. @param {import("./place.js").Rect[]} rects */
export function around(rects, pad = PAD) {
  return [
    Math.min(...rects.map(([x]) => x)) - pad,
    Math.min(...rects.map(([, y]) => y)) - pad,
    Math.max(...rects.map(([x, , w]) => x + w)) + pad,
    Math.max(...rects.map(([, y, , h]) => y + h)) + pad,
  ];
}

const touches = ([left, top, right, bottom], [x, y, w, h]) => x < right && x + w > left && y < bottom && y + h > top;

/** Draws the frame of one group: a rectangle where it holds nothing else, else one rounded shape a member, linked. */
export class FrameView {
  constructor() {
    this.shape = svg("path", { class: "ex-frame" });
    this.title = svg("text", { class: "ex-frame-title" });
    this.number = svg("text", { class: "ex-number" });
    this.root = svg("g", {}, this.shape);
    this.label = svg("g", {}, this.title, this.number);
  }

  /** @param {import("./scene.js").Frame} frame @param {import("./place.js").Placement} placement */
  show(frame, placement) {
    if (this.placement !== placement || this.slots !== frame.slots.join()) this.#outline(frame.slots, placement);
    put(this.shape, "class", `ex-frame ex-${frame.state} ex-${frame.group.kind}`);
    const [x, y, right, bottom] = this.bounds;
    say(this.title, shorten(visible(frame.group.label), Math.max(240, right - x + 60), TITLE));
    put(this.title, "x", x + 2);
    put(this.title, "y", y - 5);
    put(this.label, "class", `ex-frame-label ex-${frame.state}`);
    say(this.number, frame.number ? grouped(frame.number) : "");
    put(this.number, "x", x - 8);
    put(this.number, "y", (y + bottom) / 2 + 4);
  }

  #outline(slots, placement) {
    this.placement = placement;
    this.slots = slots.join();
    const rects = slots.map((slot) => placement.slots.get(slot));
    this.bounds = around(rects);
    const members = new Set(slots);
    let holdsOthers = false;
    for (const [slot, rect] of placement.slots) holdsOthers ||= !members.has(slot) && touches(this.bounds, rect);
    put(this.shape, "d", holdsOthers ? rects.map((rect) => roundedRect(around([rect], 7))).join("") : roundedRect(this.bounds));
  }
}

function roundedRect([left, top, right, bottom], r = 14) {
  return `M${left + r} ${top}H${right - r}a${r} ${r} 0 0 1 ${r} ${r}V${bottom - r}a${r} ${r} 0 0 1 ${-r} ${r}H${left + r}a${r} ${r} 0 0 1 ${-r} ${-r}V${top + r}a${r} ${r} 0 0 1 ${r} ${-r}z`;
}
