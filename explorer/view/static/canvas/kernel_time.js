// The time of a kernel, right of its outline or of its only node: under it the title of the next kernel may stand.

import { put, say, svg } from "../dom.js";
import { besides } from "../scene/direction.js";
import { freeHeight } from "../scene/outlines.js";

/** px of a letter. */
const LETTER = 7;

/** Draws a time where no neighbour covers it; its height is looked for anew when its shape or the placement changes. */
export class KernelTime {
  /** @param {boolean} pressing whether it is drawn over neighbours where there is no room, rather than left to the panel */
  constructor(pressing) {
    this.pressing = pressing;
    this.root = svg("text", { class: "ex-frame-time" });
    this.shown = "";
    /** @type {import("../scene/placement.js").Placement | null} */
    this.placement = null;
  }

  /** @param {string} time @param {number[]} shape left, top, right, bottom @param {import("../scene/placement.js").Placement} placement */
  show(time, shape, placement) {
    const shown = [time, ...shape].join();
    if (shown === this.shown && placement === this.placement) return;
    [this.shown, this.placement] = [shown, placement];
    const [, top, right, low] = shape;
    const wanted = besides(placement.layout, top, low - top);
    const height = time ? freeHeight(shape, SPACING.number + time.length * LETTER, wanted, placement) : undefined;
    const isShown = time !== "" && (height !== undefined || this.pressing);
    say(this.root, isShown ? time : "");
    if (!isShown) return;
    put(this.root, "x", right + SPACING.number);
    put(this.root, "y", height ?? wanted);
  }
}
