// The names of layers' ports, beside the ends of edges at the layers' boxes.

import { html, pool, put, say, svg } from "../dom.js";
import { flowsRight } from "../scene/direction.js";

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
      const ends = right ? [[points[0] + 5, points[1] - 4], [points.at(-2) - 9, points.at(-1) - 4]] : [[points[0] + 5, points[1] + 10], [points.at(-2) + 5, points.at(-1) - 5]];
      for (const [end, place] of ends.entries()) {
        if (!names[end]) continue;
        const key = place.join();
        if (!labels.has(key)) labels.set(key, { place, anchor: right && end ? "end" : undefined, names: new Set() });
        labels.get(key).names.add(names[end]);
      }
    }
    const texts = pool(this.texts, labels.size, () => svg("text", { class: "ex-port" }));
    [...labels.values()].forEach(({ place, anchor, names }, index) => {
      put(texts[index], "text-anchor", anchor);
      put(texts[index], "x", place[0]);
      put(texts[index], "y", place[1]);
      say(texts[index], [...names].join(", "));
    });
  }
}
