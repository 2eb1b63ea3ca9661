// Pointer, wheel and key events on the canvas, and keys of the whole view.

import { hasFocus } from "../dom.js";
import { nearestEdge } from "./edge_path.js";

const DRAG = 4;
/** Maximum distance of a press from an edge, in px. */
const NEAR = 8;

/** Pan and pinch with the pointer, scroll and zoom with the wheel. @param {import("../view.js").View} view */
export function listenToPointer(view) {
  const { stage, camera } = view;
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
  stage.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
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
    if (travelled < DRAG && isCanvas(view, event.target)) choose(view, keyAt(view, event), view.prediction.isOn ? edgeAt(view, event) : "", event.shiftKey);
  });
  stage.addEventListener("dblclick", (event) => {
    if (isCanvas(view, event.target)) enterOrToggle(view, keyAt(view, event));
  });
  stage.addEventListener("focusin", (event) => view.focus.noticed(keyOf(event.target)));
  stage.addEventListener("wheel", (event) => onWheel(event, view), { passive: false });
}

/** Handle a click: an answer during an exercise, else a selection. */
function choose(view, key, edge, isSecond) {
  if (view.prediction.isOn) view.prediction.exercise.take(key, key[0] === "n" ? "" : edge);
  else view.selection[isSecond ? "pair" : "pick"](key);
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

/** Handle every key listed in the help. @param {import("../view.js").View} view */
export function listenToKeys(view) {
  const anywhere = {
    ".": () => view.step(1),
    ",": () => view.step(-1),
    "]": () => view.stepStage(1),
    "[": () => view.stepStage(-1),
    Home: () => view.go(0),
    // A plan without steps, such as a plan of array views only, shows the whole last stage.
    End: () => view.go(view.timeline.end, view.timeline.end ? -1 : view.timeline.stages.length - 1),
    p: () => view.play(),
    "/": () => view.parts.search.open(),
    f: () => view.fit(),
    d: () => view.turning.turn(),
    F: () => view.sizes.turnFullScreen(),
    w: () => view.sizes.turnPanel(),
    g: () => view.prediction.toggle(),
    m: () => view.prediction.exercise?.hint(),
    s: () => view.parts.turnTree(),
    l: () => view.parts.turnSource(),
    h: () => view.heat.next(),
    i: () => view.selection.trace("inputs"),
    r: () => view.selection.trace("outputs"),
    n: () => view.prediction.exercise?.judge(false) || view.parts.search.walk(1),
    N: () => view.parts.search.walk(-1),
    y: () => (view.prediction.isOn ? view.prediction.exercise.judge(true) : hasFocus(view.stage) && view.selection.pair(view.focus.key)),
    e: () => view.opening.all(true),
    c: () => view.opening.all(false),
    "?": () => view.parts.turnHelp(),
    Escape: () => escape(view),
  };
  for (let depth = 0; depth < 10; depth++) anywhere[depth] = () => view.opening.to(depth);
  for (const { key, act } of view.callbacks.keys ?? []) anywhere[key] = act;
  const zoom = (factor) => view.camera.zoom(factor, undefined, undefined, true);
  const onCanvas = {
    Enter: () => activate(view),
    " ": () => activate(view),
    "+": () => toggleFocused(view, true) || zoom(1.25),
    "=": () => toggleFocused(view, true) || zoom(1.25),
    "-": () => toggleFocused(view, false) || zoom(0.8),
    "−": () => toggleFocused(view, false) || zoom(0.8),
  };
  for (const arrow of ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]) onCanvas[arrow] = () => view.focus.walk(arrow);
  view.root.addEventListener("keydown", (event) => {
    if (isForeign(event) || event.defaultPrevented) return;
    const typing = event.target.matches("input, select, textarea");
    const action = (view.stage.contains(event.target) && !typing && onCanvas[event.key]) || (!typing || SLIDER.has(event.key) ? anywhere[event.key] : undefined);
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    view.focus.keep(action);
  });
}

const SLIDER = new Set([".", ",", "[", "]", "?", "/", "Escape"]);

/** Handle a double click: open or close a box, or enter a call. @param {import("../view.js").View} view @param {string} key */
function enterOrToggle(view, key) {
  const { trace, scene, opening } = view;
  if (key[0] === "b") return opening.toggle(Number(key.slice(1)));
  const node = scene.slots.get(Number(key.slice(1)))?.node ?? -1;
  const callee = trace.nodes.callee[node] ?? -1;
  if (callee >= 0 && trace.layout.bodies[callee] !== undefined) view.enter(callee);
}

/** Handle Enter: select the focused node, enter the call if it is selected already, or open or close the focused box. */
function activate(view) {
  const key = view.focus.key;
  if (view.prediction.isOn) return view.prediction.exercise.take(key, "");
  const mark = key[0] === "n" ? view.scene.slots.get(Number(key.slice(1))) : undefined;
  if (mark && mark.node !== view.selection.node) view.selection.select(mark.node);
  else if (key) enterOrToggle(view, key);
}

/** Open or close the focused box, or close the box around the focused node. Return false if nothing changed. */
function toggleFocused(view, open) {
  const [letter, index] = [view.focus.key[0], Number(view.focus.key.slice(1))];
  if (letter === "b") return view.opening.toggle(index, open);
  const box = letter === "n" ? view.paths.around(index)[0] : undefined;
  return !open && box !== undefined && view.opening.toggle(box, false);
}

/** Close the open part, else end the exercise, else clear the selection, else leave the function. */
function escape(view) {
  if (!view.parts.help.hidden) view.parts.turnHelp();
  else if (!view.parts.search.root.hidden) view.parts.search.close();
  else if (view.prediction.isOn) view.prediction.end();
  else if (view.selection.traceDirection) view.selection.trace("");
  else if (view.selection.node >= 0 || view.selection.box >= 0) view.selection.select(-1);
  else if (view.body !== 0) view.enter(0);
}

/** Whether a key belongs to the page: it has a modifier, as JupyterLab's keys for running and saving do. */
function isForeign(event) {
  return event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter");
}

/**
 * Disable JupyterLab's single-key commands (a, b, x, …) while the focus is inside. Return a function that ends this.
 * Lumino matches its selectors from the focused element upwards, so this element must have the attribute.
 * @param {import("../view.js").View} view
 */
export function holdKeys(view) {
  const mark = (event) => {
    const [target] = event.composedPath(); // inside a shadow root, too
    if (target instanceof Element && view.root.contains(target)) target.toggleAttribute("data-lm-suppress-shortcuts", !isForeign(event));
  };
  window.addEventListener("keydown", mark, true);
  return () => window.removeEventListener("keydown", mark, true);
}
