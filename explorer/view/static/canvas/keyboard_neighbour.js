// Targets of arrow keys: up to operands, down to readers, into and out of open boxes, sideways in reading order.
// In a graph that flows to the right, the left arrow acts as up and the right arrow as down.

import { flowsRight } from "../scene/direction.js";

/** Height of the title of an open box in px. */
const TITLE = 20;

/** Return the item that an arrow key moves the focus to. @param {import("./canvas.js").Canvas} canvas @param {import("../scene/scene.js").Scene} scene @param {string} key @param {string} arrow @returns {string | null} */
export function neighbour(canvas, scene, key, arrow) {
  if (!canvas.rect(key)) return null;
  return flowing(canvas, scene, key, flowsRight(canvas.trace.layout) ? ASIDE[arrow] : arrow);
}

/** Arrow key in a graph that flows to the right → equivalent key in a graph that flows down. */
const ASIDE = { ArrowUp: "ArrowLeft", ArrowDown: "ArrowRight", ArrowLeft: "ArrowUp", ArrowRight: "ArrowDown" };

/** Return the neighbour in a graph that flows down. */
function flowing(canvas, scene, key, arrow) {
  if (arrow === "ArrowLeft" || arrow === "ArrowRight") {
    const order = readingOrder(canvas, scene);
    return order[order.indexOf(key) + (arrow === "ArrowLeft" ? -1 : 1)] ?? null;
  }
  const up = arrow === "ArrowUp";
  const isOpen = key[0] === "b" && canvas.placement.composed.has(Number(key.slice(1)));
  if (isOpen && !up) return readingOrder(canvas, scene).find((other) => outside(canvas, other) === key) ?? null;
  return nearest(canvas, key, along(canvas, scene, key, up)) ?? (up ? outside(canvas, key) : null);
}

/** Return the focusable items of the canvas. @returns {string[]} */
export function focusable(canvas, scene) {
  const slots = [...canvas.placement.slots.keys()].filter((slot) => scene.slots.has(slot)).map((slot) => `n${slot}`);
  return [...slots, ...[...canvas.layerOf.keys()].map((box) => `b${box}`).filter((key) => canvas.stands(key))];
}

let read = { scene: null, order: [] };

/** Return all items row by row, each row from left to right; items of a row overlap vertically. An open box is in the row of its title. */
function readingOrder(canvas, scene) {
  if (read.scene === scene) return read.order;
  const places = focusable(canvas, scene).map((key) => {
    const [x, top, , high] = canvas.placement.flowing(canvas.rect(key));
    const isOpen = key[0] === "b" && canvas.placement.composed.has(Number(key.slice(1)));
    return { key, x, top, bottom: top + (isOpen ? TITLE : high), row: 0 };
  });
  places.sort((a, b) => a.top - b.top);
  let [row, end] = [-1, -Infinity];
  for (const place of places) {
    if (place.top >= end) [row, end] = [row + 1, Infinity];
    [place.row, end] = [row, Math.min(end, place.bottom)];
  }
  places.sort((a, b) => a.row - b.row || a.x - b.x);
  read = { scene, order: places.map(({ key }) => key) };
  return read.order;
}

/** Return the open box around an item. */
function outside({ trace, placement }, key) {
  const index = Number(key.slice(1));
  const box = key[0] === "n" ? trace.boxOf[index] : trace.layout.boxes[index].parent;
  return box >= 0 && box !== placement.outermost ? `b${box}` : null;
}

/** Return the candidate whose center is horizontally nearest. */
function nearest(canvas, key, candidates) {
  const middle = (other) => {
    const [x, , wide] = canvas.placement.flowing(canvas.rect(other));
    return x + wide / 2;
  };
  const here = middle(key);
  return candidates.reduce((best, other) => (best === null || Math.abs(middle(other) - here) < Math.abs(middle(best) - here) ? other : best), null);
}

/** Return the items at the other ends of an item's edges. A closed box has the edges of its contents. @param {boolean} up @returns {string[]} */
export function along(canvas, scene, key, up) {
  const { trace, placement } = canvas;
  const final = trace.resolver(scene.moment.position);
  const neighbours = new Set();
  const shown = (slot) => (placement.hiddenIn[slot] === -1 ? `n${slot}` : `b${placement.hiddenIn[slot]}`);
  for (const [slot, mark] of scene.slots) {
    for (const operand of trace.nodes.operands[mark.node]) {
      const producer = trace.slotOf[trace.origin(final[operand])];
      if (producer < 0 || !scene.slots.has(producer)) continue;
      const [from, to] = [shown(producer), shown(slot)];
      if (from !== to && (up ? to : from) === key) neighbours.add(up ? from : to);
    }
  }
  return [...neighbours];
}
