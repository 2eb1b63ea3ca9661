// Outlines of fused kernels and batches around their members.

import { put, say, svg } from "../dom.js";
import { grouped } from "../data/number_format.js";
import { besides } from "../scene/direction.js";
import { Outline } from "../scene/outlines.js";
import { KernelTime } from "./kernel_time.js";

/** px between a title and the sides of its outline, and px of the difference sign before it. */
const [INDENT, SIGN] = [2, 14];

/** Return the first title that fits into `room` px, else the last one; labels.py has the same rule. @param {[string, number][]} titles with their widths @param {number} room */
function titleWithin(titles, room) {
  const [title] = titles.find(([, wide]) => wide <= room) ?? titles[titles.length - 1];
  return title;
}

/** Drawing of one group's outline, title and number. */
export class FrameView {
  constructor() {
    this.shape = svg("path", { class: "ex-frame" });
    this.title = svg("text", { class: "ex-frame-title" });
    this.number = svg("text", { class: "ex-number" });
    this.time = new KernelTime(true);
    this.root = svg("g", {}, this.shape);
    this.label = svg("g", {}, this.title, this.number, this.time.root);
  }

  /** @param {import("../scene/frames.js").Frame} frame @param {import("../scene/scene.js").Scene} scene @param {import("../scene/placement.js").Placement} placement @param {import("../compare/differences.js").Difference} [differs] set if the other graph computes it in another kernel */
  show(frame, scene, placement, differs) {
    if (this.scene === scene) return;
    this.scene = scene;
    const members = `${frame.slots}|${frame.boxes}`;
    if (this.placement !== placement || this.members !== members) this.outline = new Outline(frame, placement);
    this.placement = placement;
    this.members = members;
    this.shapes = this.outline.shapes(scene);
    put(this.shape, "d", this.shapes.map((shape) => roundedRect(shape)).join(""));
    put(this.shape, "class", `ex-frame ex-${frame.state} ex-${frame.group.kind}${differs ? ` ex-differs-${differs.kind}` : ""}`);
    const [x, y, edge, bottom] = this.shapes[0];
    const title = titleWithin(frame.group.titles, edge - x - 2 * INDENT - (differs ? SIGN : 0));
    say(this.title, (differs ? `${differs.sign} ` : "") + title);
    put(this.title, "x", x + INDENT);
    put(this.title, "y", y - 5);
    put(this.title, "data-of", frame.slots.length ? `n${frame.slots.at(-1)}` : `b${frame.boxes.at(-1)}`);
    put(this.label, "class", `ex-frame-label ex-${frame.state}`);
    say(this.number, frame.number ? grouped(frame.number) : "");
    put(this.number, "x", x - SPACING.number);
    put(this.number, "y", besides(placement.layout, y, bottom - y));
    this.time.show(frame.time, this.shapes.at(-1), placement);
  }
}

function roundedRect(/** @type {number[]} */ [left, top, right, bottom], r = 14) {
  return `M${left + r} ${top}H${right - r}a${r} ${r} 0 0 1 ${r} ${r}V${bottom - r}a${r} ${r} 0 0 1 ${-r} ${r}H${left + r}a${r} ${r} 0 0 1 ${-r} ${-r}V${top + r}a${r} ${r} 0 0 1 ${r} ${-r}z`;
}
