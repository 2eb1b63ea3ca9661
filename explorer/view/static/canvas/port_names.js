// Names of layer ports, next to the ends of edges at layer boxes.

import { html, pool, put, say, svg } from "../dom.js";
import { flowsRight } from "../scene/direction.js";

/** Drawing of the port names of a scene's edges. */
export class PortNames {
  constructor() {
    this.texts = svg("svg", { class: "ex-tile" });
    this.root = html("div", { class: "ex-layer-ports", "aria-hidden": "true" }, this.texts);
  }

  /** @param {import("../scene/scene.js").Scene} scene @param {import("../scene/placement.js").Placement} placement */
  show(scene, placement) {
    const labels = new Map();
    const right = flowsRight(placement.layout);
    for (const [key, { names, points }] of placement.named) {
      if (!scene.edges.has(key)) continue;
      // Where a value leaves a box, its name must not touch the box's second sheet and, right of the center, its output mark.
      const ends = right ? [[points[0] + 9, points[1] - 4], [points.at(-2) - 9, points.at(-1) - 4]] : [[points[0] - 5, points[1] + 13], [points.at(-2) + 5, points.at(-1) - 5]];
      for (const [end, place] of ends.entries()) {
        if (!names[end] || (!end && right && isTight(names, points))) continue;
        const key = place.join();
        if (!labels.has(key)) labels.set(key, { place, anchor: right === Boolean(end) ? "end" : undefined, names: new Map(), isEnd: Boolean(end), room: Infinity });
        const label = labels.get(key);
        if (!label.names.has(names[end])) label.names.set(names[end], points[right ? 1 : 0]);
        if (right && Math.abs(points.at(-1) - points[1]) < SPACING.level) label.room = Math.min(label.room, points.at(-2) - points[0]);
      }
    }
    const all = [...labels.values()];
    const rows = all.flatMap((label) => {
      if (label.isEnd && label.names.size > 1) return apart(label, right);
      const row = { ...label, text: [...label.names.keys()].join(", ") };
      return [!right && label.isEnd && touches(row, all) ? { ...row, place: [label.place[0] - 10, label.place[1]], anchor: "end" } : row];
    });
    // In a graph that flows to the right, a name is drawn along its edge. A longer name would be covered by the box at the other end if both are level.
    const legible = rows.filter(({ text, room }) => SPACING.character * text.length + SPACING.besides < room);
    const texts = pool(this.texts, legible.length, () => svg("text", { class: "ex-port" }));
    legible.forEach(({ place, anchor, text }, index) => {
      put(texts[index], "text-anchor", anchor);
      put(texts[index], "x", place[0]);
      put(texts[index], "y", place[1]);
      say(texts[index], text);
    });
  }
}

/** Whether an edge to the right is too short for both of its names; then only the name at its end is drawn. */
function isTight(names, points) {
  const isLevel = Math.abs(points.at(-1) - points[1]) < SPACING.level;
  return isLevel && names[1] && SPACING.character * (names[0].length + names[1].length) + 2 * SPACING.besides > points.at(-2) - points[0];
}

/** Whether a name to the right of an edge's end would touch the end of the next edge. */
function touches({ place: [x, y], text }, labels) {
  return labels.some(({ isEnd, place }) => isEnd && place[1] === y && place[0] > x && place[0] - x < SPACING.character * text.length + 5);
}

/** Split the names of several edges that end at one point: each goes to the side that its edge comes from. */
function apart({ place: [x, y], names, ...label }, right) {
  const ordered = [...names.keys()].sort((a, b) => names.get(a) - names.get(b));
  const half = ordered.length >> 1;
  const [before, behind] = [ordered.slice(0, half).join(", "), ordered.slice(half).join(", ")];
  return right
    ? [{ ...label, place: [x, y], text: before }, { ...label, place: [x, y + 13], text: behind }]
    : [{ ...label, place: [x - 10, y], anchor: "end", text: before }, { ...label, place: [x, y], text: behind }];
}
