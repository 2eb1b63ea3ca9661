// Motion of items from one placement to another; edges and outlines fade in at their new positions.

import { calm } from "../dom.js";

const MOTION = { duration: 300, easing: "ease-in-out" };
const APPEARANCE = { duration: 450, easing: "ease-in" };

/**
 * Move the drawn items of a canvas from their rectangles in a previous placement.
 * @param {import("./canvas.js").Canvas} canvas @param {import("../scene/placement.js").Placement} before
 */
export function glide(canvas, before) {
  if (calm()) return;
  for (const [key, element] of canvas.items.elements) {
    const index = Number(key.slice(1));
    const [from, to] = [(key[0] === "n" ? before.slots : before.boxes).get(index), canvas.rect(key)];
    if (!from || !to) continue;
    const [dx, dy] = [0, 1].map((axis) => from[axis] + from[axis + 2] / 2 - to[axis] - to[axis + 2] / 2);
    if (dx || dy) element.animate([{ translate: `${dx}px ${dy}px` }, { translate: "0 0" }], MOTION);
  }
  for (const root of [canvas.open, canvas.outlines.root, canvas.lines.root, canvas.changed.root, canvas.titles.root, canvas.crosses.root, canvas.ports.root, canvas.labels.tiles.root]) {
    root.animate([{ opacity: 0 }, { opacity: 1 }], APPEARANCE);
  }
}
