// Keys of the whole view: every key listed in the help. A key that has nothing to show states this in the line above the canvas.

import { enterOrToggle } from "../canvas/input.js";
import { keepFocus } from "../canvas/focus.js";
import { hasFocus } from "../dom.js";

/** @typedef {string | void | unknown} Note what an action returns: a sentence if there is nothing to show */

/** Sliders and menus of values use other keys themselves. */
const BESIDES_VALUES = new Set([".", ",", "[", "]", "?", "/", "Escape"]);
const [NO_BOXES, NO_QUESTIONS] = ["This graph has no boxes.", "This plan has no decisions to predict."];

/** Handle keys. @param {import("../view.js").View} view */
export function listenToKeys(view) {
  const [everywhere, canvas] = [keysOfView(view), keysOfCanvas(view)];
  keepFocus(view);
  view.root.addEventListener("keydown", (event) => {
    if (isForeign(event) || event.defaultPrevented) return;
    const action = actionOf(view, event, everywhere, canvas);
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    const { parts } = view;
    parts.sentence.tell("");
    view.focus.keep(() => {
      const note = action();
      if (typeof note === "string") parts.sentence.tell(note);
    });
  });
}

/** Return the action of a key at the element that has the focus, undefined if the key is not the view's. */
function actionOf(view, { target, key }, everywhere, canvas) {
  // A text field needs every key but one.
  if (target.matches("textarea, input:not([type=range])")) return key === "Escape" ? () => view.focus.take() : undefined;
  if (target.matches("input, select")) return BESIDES_VALUES.has(key) ? everywhere[key] : undefined;
  return (view.stage.contains(target) && canvas[key]) || everywhere[key];
}

/** @param {import("../view.js").View} view @returns {Record<string, () => Note>} */
function keysOfView(view) {
  const ahead = () => (view.timeline.end ? "This is the last step." : "This graph has no steps.");
  const back = () => (view.timeline.end ? "This is the first step." : "This graph has no steps.");
  const hasBoxes = () => view.trace.layout.boxes.length > 1;
  // The whole graph is shown in any case.
  const boxes = (act) => (act(), hasBoxes() ? undefined : NO_BOXES);
  const traced = (way) => (view.selection.node < 0 ? "Select a node to trace it: go to it by the arrows and press Enter." : view.selection.trace(way));
  const value = () => (view.selection.node < 0 ? "Select a node to select its value: go to it by the arrows and press Enter." : view.selection.turnValue());
  const walk = (by) => view.parts.search.walk(by) || "No search has results: press / to search.";
  /** @type {Record<string, () => Note>} */
  const keys = {
    ".": () => moved(view, () => view.step(1), ahead),
    ",": () => moved(view, () => view.step(-1), back),
    "]": () => moved(view, () => view.stepStage(1), () => (view.timeline.end ? "This is the last stage." : ahead())),
    "[": () => moved(view, () => view.stepStage(-1), back),
    Home: () => moved(view, () => view.go(0), back),
    // A plan without steps, such as a plan of array views only, shows the whole last stage.
    End: () => moved(view, () => view.go(view.timeline.end, view.timeline.end ? -1 : view.timeline.stages.length - 1), ahead),
    p: () => (view.timeline.end ? view.play() : ahead()),
    "/": () => view.parts.search.open(),
    f: () => view.fit(),
    d: () => turn(view),
    F: () => (document.fullscreenEnabled ? view.sizes.turnFullScreen() : "This page does not allow full screen."),
    w: () => view.sizes.turnPanel(),
    g: () => (view.prediction.isPossible ? view.prediction.toggle() : NO_QUESTIONS),
    m: () => hint(view),
    // The choice belongs to all views of a page, so a view without boxes does not change it.
    s: () => (hasBoxes() ? view.parts.turnTree() : "This graph has no boxes, so there is no tree of boxes."),
    l: () => (view.lines.isKnown ? view.parts.turnSource() : "The source of this graph is not known."),
    h: () => view.heat.next(),
    i: () => traced("inputs"),
    r: () => traced("outputs"),
    v: value,
    n: () => view.prediction.exercise?.judge(false) || walk(1),
    N: () => walk(-1),
    y: () => (view.prediction.isOn ? view.prediction.exercise.judge(true) || "This question is not answered by y or n." : pair(view)),
    e: () => boxes(() => view.opening.all(true)),
    c: () => boxes(() => view.opening.all(false)),
    "?": () => view.parts.turnHelp(),
    Escape: () => escape(view),
  };
  for (let depth = 0; depth < 10; depth++) keys[depth] = () => boxes(() => view.opening.to(depth));
  for (const { key, act } of view.callbacks.keys ?? []) keys[key] = act;
  return keys;
}

/** @param {import("../view.js").View} view @returns {Record<string, () => Note>} */
function keysOfCanvas(view) {
  const zoom = (factor) => view.camera.zoom(factor, undefined, undefined, true);
  const [open, close] = [() => toggleFocused(view, true) || zoom(1.25), () => toggleFocused(view, false) || zoom(0.8)];
  /** @type {Record<string, () => Note>} */
  const keys = { Enter: () => activate(view), " ": () => activate(view), "+": open, "=": open, "-": close, "−": close };
  for (const arrow of ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]) keys[arrow] = () => view.focus.walk(arrow);
  return keys;
}

/** Change the moment; return a sentence if it is the same afterwards. An exercise shows its own sentence. */
function moved(view, act, note) {
  const before = view.now;
  act();
  return view.now === before && !view.prediction.isOn ? note() : undefined;
}

/** Request the other direction. */
function turn(view) {
  if (!view.turning.isPossible) return "This page has the graph in one direction only.";
  if (view.callbacks.onTurn && view.root.classList.contains("ex-no-kernel")) return "The kernel has stopped, which lays out the graph in the other direction.";
  return view.turning.turn();
}

/** Give a hint on the open question. */
function hint({ prediction }) {
  if (!prediction.isPossible) return NO_QUESTIONS;
  if (!prediction.isOn) return "A hint is about a question: press g to predict what a stage decides.";
  return prediction.exercise.hint() || "There is no hint on this question.";
}

/** Ask why the selected item and the focused one are not one kernel. */
function pair({ selection, focus, stage }) {
  if (!hasFocus(stage) || !focus.key) return "Go to a node on the canvas, and press y to compare it with the selected one.";
  const chosen = () => [selection.node, selection.box, selection.other, selection.otherBox].join();
  const before = chosen();
  selection.pair(focus.key);
  return chosen() === before ? "This one is selected: go to another one by the arrows, and press y." : undefined;
}

/** Handle Enter: select the focused node, enter the call if it is selected already, or open or close the focused box. */
function activate(view) {
  const { key } = view.focus;
  if (view.prediction.isOn) return view.prediction.exercise.take(key, "");
  const mark = key[0] === "n" ? view.scene.slots.get(Number(key.slice(1))) : undefined;
  if (mark && (mark.node !== view.selection.node || view.selection.isValue)) return view.selection.select(mark.node);
  if (key && !enterOrToggle(view, key) && mark) return `${view.trace.namedLabel(mark.node)} is selected already.`;
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
