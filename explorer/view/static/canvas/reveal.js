// Minimal camera motion that makes rectangles visible, not covered by the parts over the canvas.

/** @typedef {number[]} Edges left, top, right, bottom, in px of the viewport */

/** Minimum px between a revealed rectangle and the border or the parts over the canvas. */
const FREE = 6;

/**
 * Return the motion that shows the first rectangle and as many more as fit next to it. If some rectangle is visible
 * already, it counts as the first. @param {Edges[]} rects @param {{width: number, height: number}} room @param {Edges[]} overlays
 * @returns {[number, number]} dx, dy
 */
export function motion(rects, room, overlays) {
  const whole = [0, 0, room.width, room.height];
  const first = rects.find((rect) => holds(whole, rect) && !overlays.some((overlay) => touches(overlay, rect))) ?? rects[0];
  let all = first;
  for (const rect of rects) {
    const more = union(all, rect);
    if (more[2] - more[0] <= room.width - 2 * FREE && more[3] - more[1] <= room.height - 2 * FREE) all = more;
  }
  for (const goal of [all, first]) {
    const [dx, dy] = [shift(goal[0], goal[2], room.width), shift(goal[1], goal[3], room.height)];
    const clear = clearing(moved(goal, dx, dy), whole, overlays);
    if (clear) return [dx + clear[0], dy + clear[1]];
  }
  return [shift(first[0], first[2], room.width), shift(first[1], first[3], room.height)];
}

/** Return the minimal motion away from the parts over the canvas that stays in the viewport, undefined if there is none. */
function clearing(rect, whole, overlays) {
  const across = [0, ...overlays.flatMap(([left, , right]) => [left - rect[2] - FREE, right - rect[0] + FREE])];
  const along = [0, ...overlays.flatMap(([, top, , bottom]) => [top - rect[3] - FREE, bottom - rect[1] + FREE])];
  const motions = across.flatMap((dx) => along.map((dy) => [dx, dy]));
  motions.sort((a, b) => Math.abs(a[0]) + Math.abs(a[1]) - Math.abs(b[0]) - Math.abs(b[1]));
  return motions.find(([dx, dy]) => {
    const there = moved(rect, dx, dy);
    return (dx === 0 && dy === 0 ? true : holds(whole, there)) && !overlays.some((overlay) => touches(overlay, there));
  });
}

function shift(low, high, room) {
  const edge = Math.min(FREE, room / 10);
  if (low >= edge && high <= room - edge) return 0;
  return low < edge || high - low > room - 2 * edge ? edge - low : room - edge - high;
}

/** @type {(edges: Edges, dx: number, dy: number) => Edges} */
const moved = ([left, top, right, bottom], dx, dy) => [left + dx, top + dy, right + dx, bottom + dy];
const union = (first, second) => [Math.min(first[0], second[0]), Math.min(first[1], second[1]), Math.max(first[2], second[2]), Math.max(first[3], second[3])];
const holds = (outer, inner) => outer[0] <= inner[0] && outer[1] <= inner[1] && inner[2] <= outer[2] && inner[3] <= outer[3];
const touches = (first, second) => first[0] < second[2] && second[0] < first[2] && first[1] < second[3] && second[1] < first[3];
