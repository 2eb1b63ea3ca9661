// Initial view of a graph that does not fit into its canvas.

import { flowsRight } from "../scene/direction.js";
import { LEGIBLE, READABLE } from "./camera.js";

/** Minimum number of visible items. With fewer, most of the canvas is empty, so a graph is shown smaller if this at least doubles them. */
const FEW = 8;

/** Show the start of a view's graph at a legible scale. @param {import("../view.js").View} view */
export function begin({ camera, placement, scene, trace }) {
  const right = flowsRight(trace.layout);
  const items = standing(placement, scene);
  const seenAt = (scale) => {
    camera.fit(placement.size, scale, right, (length, room) => beginning(items, right, length, room));
    return items.filter(([x, y, wide, high]) => camera.shows([x, y, x + wide, y + high])).length;
  };
  const seen = seenAt(READABLE);
  if (seen < FEW && seen < items.length && seenAt(LEGIBLE) < 2 * seen) seenAt(READABLE);
}

/**
 * Return the center, across the flow, of the items at the start of a graph: the first item and as many of the items
 * within `length` after it as fit into `room`. @param {number[][]} items @param {boolean} right whether values flow to the right @param {number} length @param {number} room @returns {number | undefined}
 */
function beginning(items, right, length, room) {
  const [along, across] = right ? [0, 1] : [1, 0];
  const start = items.reduce((least, rect) => Math.min(least, rect[along]), Infinity);
  const first = items.filter((rect) => rect[along] + rect[along + 2] <= start + length).sort((a, b) => a[along] - b[along] || a[across] - b[across]);
  if (!first.length) return undefined;
  let [low, high] = [first[0][across], first[0][across] + first[0][across + 2]];
  for (const rect of first) {
    const [least, most] = [Math.min(low, rect[across]), Math.max(high, rect[across] + rect[across + 2])];
    if (most - least <= room) [low, high] = [least, most];
  }
  return (low + high) / 2;
}

/** Return the rectangles of a scene's nodes and closed boxes. @param {import("../scene/placement.js").Placement} placement @param {import("../scene/scene.js").Scene} scene @returns {number[][]} x, y, width, height */
export function standing(placement, scene) {
  const boxes = [...placement.boxes].filter(([box]) => !placement.composed.has(box));
  const slots = [...placement.slots].filter(([slot]) => scene.slots.has(slot));
  return [...boxes, ...slots].map(([, rect]) => rect);
}
