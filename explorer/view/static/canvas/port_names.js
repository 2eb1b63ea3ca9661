// The names of layers' ports, beside the ends of edges at the layers' boxes.

import { html, pool, put, say, svg } from "../dom.js";
import { flowsRight } from "../scene/direction.js";

/** px of a character, what stays free at the ends of an edge, and up to which difference of height both ends are level. */
const [CHARACTER, BESIDES, LEVEL] = [5, 12, 24];

/** Draws the names that belong to the edges of a scene. */
export class PortNames {
  constructor() {
    this.texts = svg("svg", { class: "ex-tile", overflow: "visible" });
    this.root = html("div", { class: "ex-layer-ports", "aria-hidden": "true" }, this.texts);
  }

  /** @param {import("../scene/scene.js").Scene} scene @param {import("../scene/compose.js").Placement} placement */
  show(scene, placement) {
    const labels = new Map();
    const right = flowsRight(placement.layout);
    for (const [key, { names, points }] of placement.named) {
      if (!scene.edges.has(key)) continue;
      // Where values leave a box its second sheet lies, and, to the right of the middle, the mark of an output.
      const ends = right ? [[points[0] + 9, points[1] - 4], [points.at(-2) - 9, points.at(-1) - 4]] : [[points[0] - 5, points[1] + 13], [points.at(-2) + 5, points.at(-1) - 5]];
      for (const [end, place] of ends.entries()) {
        if (!names[end]) continue;
        const key = place.join();
        if (!labels.has(key)) labels.set(key, { place, anchor: right === Boolean(end) ? "end" : undefined, names: new Set(), room: Infinity });
        const label = labels.get(key);
        label.names.add(names[end]);
        if (right && Math.abs(points.at(-1) - points[1]) < LEVEL) label.room = Math.min(label.room, points.at(-2) - points[0]);
      }
    }
    const rows = [...labels.values()].map(({ names, ...label }) => ({ ...label, text: [...names].join(", ") }));
    // To the right a name lies along its edge: one that is longer would lie under the box at the other end, where that is level.
    const legible = rows.filter(({ text, room }) => CHARACTER * text.length + BESIDES < room);
    const texts = pool(this.texts, legible.length, () => svg("text", { class: "ex-port" }));
    legible.forEach(({ place, anchor, text }, index) => {
      put(texts[index], "text-anchor", anchor);
      put(texts[index], "x", place[0]);
      put(texts[index], "y", place[1]);
      say(texts[index], text);
    });
  }
}
