// Neighbours for arrow keys: up to operands, down to readers, sideways to items beside.

/** @param {import("./canvas.js").Canvas} canvas @param {import("../scene/scene.js").Scene} scene @param {string} key @param {string} arrow */
export function neighbour(canvas, scene, key, arrow) {
  const here = canvas.rect(key);
  if (!here) return null;
  const sideways = arrow === "ArrowLeft" || arrow === "ArrowRight";
  const candidates = sideways ? beside(canvas, scene, key, here, arrow === "ArrowLeft") : along(canvas, scene, key, arrow === "ArrowUp");
  const middle = here[0] + here[2] / 2;
  const distance = (other) => {
    const [x, y, w, h] = canvas.rect(other);
    return Math.abs(x + w / 2 - middle) + (sideways ? 3 * Math.abs(y + h / 2 - here[1] - here[3] / 2) : 0);
  };
  return candidates.reduce((best, other) => (best === null || distance(other) < distance(best) ? other : best), null);
}

/** Visible items of the canvas that can have the focus. */
export function focusable(canvas, scene) {
  const slots = [...canvas.placement.slots.keys()].filter((slot) => scene.slots.has(slot)).map((slot) => `n${slot}`);
  return [...slots, ...[...canvas.layerOf.keys()].map((box) => `b${box}`)];
}

function beside(canvas, scene, key, [x, y, , h], left) {
  return focusable(canvas, scene).filter((other) => {
    const rect = canvas.rect(other);
    const overlaps = rect[1] < y + h + 20 && rect[1] + rect[3] > y - 20;
    return other !== key && overlaps && (left ? rect[0] < x : rect[0] > x);
  });
}

/** Items at the other ends of an item's edges; a closed box has the edges of its contents. */
function along(canvas, scene, key, up) {
  const { trace, placement } = canvas;
  const final = trace.resolver(scene.moment.position);
  const found = new Set();
  const shown = (slot) => (placement.hiddenIn[slot] === -1 ? `n${slot}` : `b${placement.hiddenIn[slot]}`);
  for (const [slot, mark] of scene.slots) {
    for (const operand of trace.nodes.operands[mark.node]) {
      const producer = trace.slotOf[trace.origin(final[operand])];
      if (producer < 0 || !scene.slots.has(producer)) continue;
      const [from, to] = [shown(producer), shown(slot)];
      if (from !== to && (up ? to : from) === key) found.add(up ? from : to);
    }
  }
  return [...found];
}
