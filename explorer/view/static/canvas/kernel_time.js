// The time of a kernel, to the right of its outline or only node, because the next kernel's title may be below.

import { put, say, svg } from "../dom.js";
import { besides } from "../scene/direction.js";
import { freeHeight } from "../scene/outlines.js";

/** Width of a letter in px. */
const LETTER = 7;

/** Drawing of a time at a height where no neighbour covers it. The height is computed again when the shape or the placement changes. */
export class KernelTime {
  /** @param {boolean} pressing whether it is drawn over neighbours if there is no room; otherwise only the panel shows it */
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
