// Pointer and wheel events on the canvas.

import { hasFocus } from "../dom.js";
import { nearestEdge } from "./edge_path.js";

const DRAG = 4;
/** Maximum distance of a click from an edge, in px. */
const NEAR = 10;

/** Pan and pinch with the pointer, scroll and zoom with the wheel. @param {import("../view.js").View} view */
export function listenToPointer(view) {
  const { stage, camera, canvas } = view;
  const pointers = new Map();
  let travelled = 0;
  const spread = () => {
    const [first, second] = [...pointers.values()];
    return Math.hypot(first.x - second.x, first.y - second.y);
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !isCanvas(view, event.target)) return;
    if (!hasFocus(stage)) stage.focus({ preventScroll: true });
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    travelled = 0;
  });
  stage.addEventListener("pointerleave", () => canvas.point(""));
  stage.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return canvas.point(event.buttons || !isCanvas(view, event.target) ? "" : clickedEdge(view, event));
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    travelled += Math.abs(dx) + Math.abs(dy);
    if (travelled < DRAG) return;
    if (!stage.hasPointerCapture(event.pointerId)) stage.setPointerCapture(event.pointerId);
    const before = pointers.size === 2 ? spread() : 0;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (before) zoomAt(camera, stage, event, spread() / before);
    else camera.drag(dx, dy, view.placement.size);
  });
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, (event) => pointers.delete(event.pointerId));
  stage.addEventListener("click", (event) => {
    if (travelled < DRAG && isCanvas(view, event.target)) choose(view, event);
  });
  stage.addEventListener("dblclick", (event) => {
    if (isCanvas(view, event.target)) enterOrToggle(view, keyAt(view, event));
  });
  stage.addEventListener("focusin", (event) => view.focus.noticed(keyOf(event.target)));
  stage.addEventListener("wheel", (event) => onWheel(event, view), { passive: false });
}

/** Handle a click: an answer during an exercise, else a selection; an edge selects its value, and its ✗ both ends. */
function choose(view, event) {
  const key = keyAt(view, event);
  if (view.prediction.isOn) return view.prediction.exercise.take(key, key[0] === "n" ? "" : edgeAt(view, event));
  const crossed = event.target.closest(".ex-cross")?.getAttribute("data-edge");
  if (!crossed) {
    const edge = clickedEdge(view, event);
    if (edge) return view.selection.pickEdge(edge);
    return view.selection[event.shiftKey ? "pair" : "pick"](key);
  }
  const [first, second] = view.scene.edges.get(crossed).apart.map((slot) => view.placement.keyOf(slot));
  view.selection.pick(first);
  view.selection.pair(second);
}

/** Whether an event target is the graph or its background, not a part over it. */
function isCanvas({ stage, canvas }, target) {
  return target === stage || canvas.root.contains(target);
}

/** Return the key of the node or box that an element belongs to, or "". A kernel's title belongs to the kernel's last node, its result. @param {EventTarget} target */
export function keyOf(target) {
  const owner = /** @type {Element} */ (target).closest("[data-key], [data-of]");
  return owner?.getAttribute("data-key") ?? owner?.getAttribute("data-of") ?? "";
}

/** Return the key of the node or box under the pointer, or "". In the low-detail view, where most items have no elements, it is found by position. @param {import("../view.js").View} view @param {MouseEvent} event */
export function keyAt({ stage, lowDetail }, event) {
  const { left, top } = stage.getBoundingClientRect();
  return lowDetail.covers ? lowDetail.at(event.clientX - left, event.clientY - top) : keyOf(event.target);
}

/** Return the key of the edge whose value a click would select, or "". Nodes, closed boxes and titles are over edges, and the background and open boxes under them. @param {import("../view.js").View} view @param {MouseEvent} event */
function clickedEdge(view, event) {
  if (event.shiftKey || view.prediction.isOn || /** @type {Element} */ (event.target).closest(".ex-cross, .ex-frame-label")) return "";
  const key = keyAt(view, event);
  const isUnder = key === "" || (key[0] === "b" && view.canvas.isBehind(Number(key.slice(1)), event.clientX, event.clientY));
  return isUnder ? edgeAt(view, event) : "";
}

/** Return the key of the drawn edge under the pointer, or "". */
function edgeAt({ stage, camera, canvas }, event) {
  const { left, top } = stage.getBoundingClientRect();
  return nearestEdge(canvas.edges, (event.clientX - left - camera.x) / camera.scale, (event.clientY - top - camera.y) / camera.scale, NEAR / camera.scale);
}

function zoomAt(camera, stage, event, factor) {
  const { left, top } = stage.getBoundingClientRect();
  camera.zoom(factor, event.clientX - left, event.clientY - top);
}

function onWheel(event, view) {
  const { stage, camera } = view;
  const zooms = event.ctrlKey || event.metaKey;
  if (!isCanvas(view, event.target) || (!zooms && !hasFocus(stage))) return;
  const lines = event.deltaMode === 1 ? 16 : 1;
  if (zooms) zoomAt(camera, stage, event, Math.exp((-event.deltaY * lines) / 240));
  // When the graph is at its edge or completely visible, the wheel scrolls the page.
  else if (!camera.scroll(-event.deltaX * lines, -event.deltaY * lines, view.placement.size)) return;
  event.preventDefault();
}

/** Open or close a box, or enter a call; return false if the item is neither. @param {import("../view.js").View} view @param {string} key */
export function enterOrToggle(view, key) {
  const { trace, scene, opening } = view;
  if (key[0] === "b") return opening.toggle(Number(key.slice(1)));
  const node = scene.slots.get(Number(key.slice(1)))?.node ?? -1;
  const callee = trace.nodes.callee[node] ?? -1;
  if (callee < 0 || trace.layout.bodies[callee] === undefined) return false;
  view.enter(callee);
  return true;
}
