// Initial view: the open boxes of a page, and the start of a graph that does not fit into its canvas.

import { flowsRight } from "../scene/direction.js";
import { READABLE, ROOM } from "./camera.js";

/** Show the start of a view's graph at a legible scale. @param {import("../view.js").View} view */
export function begin({ camera, placement, scene, trace }) {
  const right = flowsRight(trace.layout);
  const items = standing(placement, scene);
  camera.fit(placement.size, READABLE, right, (length, room) => beginning(items, right, length, room));
}

/** Open the boxes of a page for which its canvas is large enough; return whether there are any. @param {import("../view.js").View} view */
export function openMore({ stage, open, trace }) {
  const { boxes, page } = trace.layout;
  if (!page || stage.clientWidth - 2 * ROOM < page.room[0] || stage.clientHeight - 2 * ROOM < page.room[1]) return false;
  for (const box of page.boxes) {
    boxes[box].open = true;
    open.add(box);
  }
  return page.boxes.length > 0;
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
