// Icon buttons, and the help: the list of keys and the legend of outlines.

import { html, put, svg } from "../dom.js";

const ICONS = {
  first: "M11 3L5 8l6 5M4 3v10",
  back: "M10 3L5 8l5 5",
  play: "M5 3l8 5l-8 5z",
  pause: "M5 3v10M11 3v10",
  forward: "M6 3l5 5l-5 5",
  last: "M5 3l6 5l-6 5M12 3v10",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M10.5 10.5L14 14",
  fit: "M2 3v10M14 3v10M4.5 8h7M6.5 6l-2 2l2 2M9.5 6l2 2l-2 2",
  screen: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  panel: "M2 3h12v10H2zM9.5 3v10",
  tree: "M3 3h5M5 3v9.5h3M5 7.5h3M9.5 7.5h4M9.5 12.5h4",
  source: "M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5M9 3L7 13",
  tab: "M7 3H3v10h10V9M9.5 2.5H13.5V6.5M13.5 2.5L7.5 8.5",
  open: "M3 3h10v10H3zM8 5.5v5M5.5 8h5",
  close: "M3 3h10v10H3zM5.5 8h5",
  turn: "M3.5 2v9M1 8.5L3.5 11L6 8.5M7 13h8M12.5 10.5L15 13l-2.5 2.5",
  theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  save: "M8 2v8M4.5 7L8 10.5L11.5 7M2.5 11v2.5h11V11",
  up: "M3.5 10L8 5.5l4.5 4.5",
  down: "M3.5 6L8 10.5L12.5 6",
  cross: "M4 4l8 8M12 4l-8 8",
  predict: "M2.5 5.5h6v5h-6zM8.5 8h1.5M11.2 6.3a1.7 1.7 0 1 1 2.4 1.6C13 8.2 12.9 8.5 12.9 9.1M12.9 11v.4",
  more: "M3.2 8h.01M8 8h.01M12.8 8h.01",
  help: "M5.5 6a2.5 2.5 0 1 1 3.6 2.2C8.3 8.6 8 9 8 10M8 12.5v.5",
};

/** Keys and their descriptions for the help. */
/** @type {[string[], string][]} */
export const KEYS = [
  [[",", "."], "a step back, forward"],
  [["[", "]"], "a stage back, forward"],
  [["Home", "End"], "the first, the last step"],
  [["p"], "play, pause"],
  [["/"], "search nodes and decisions; Enter, Shift Enter: next, previous"],
  [["n", "N"], "the next, the previous result, on the canvas"],
  [["h"], ""],
  [["↑", "↓"], "go to an operand, to a reader of the node"],
  [["←", "→"], "go sideways"],
  [["Enter"], "select a node; open or close a box; enter a call"],
  [["y"], "explain why two nodes are not fused; also Shift and a click"],
  [["i", "r"], "trace the inputs, the readers of a node"],
  [["v"], "select the value of a node and its edges; also a click on an edge"],
  [["+", "−"], "open, close the box; elsewhere zoom"],
  [["e", "c", "0", "9"], "open, close every box; open down to a depth"],
];

/** Keys and gestures for layout and navigation. */
/** @type {[string[], string][]} */
const ROOM_KEYS = [
  [["f"], "fit the graph into view"],
  [["d"], "let the graph flow to the right, or down"],
  [["F", "w", "s", "l"], "full screen; panel; tree of boxes; source lines"],
  [["g", "m"], "predict what a stage decides; a hint"],
  [["Esc"], "close the open panel; clear the selection; leave a call"],
  [["drag"], "pan; the wheel pans a graph that is larger than the focused canvas"],
  [["Ctrl", "wheel"], "zoom"],
];

/** CSS class and meaning of each outline on the canvas. */
const MARKS = [
  ["ex-leaf", "a value that exists before the run: an input or a weight"],
  ["ex-output", "an output"],
  ["ex-new", "created by this decision"],
  ["ex-gone", "a ghost: removed by this decision"],
  ["ex-declined", "a node for which this rule was declined"],
  ["ex-current", "picked, or running, at this step"],
  ["ex-ready", "ready: could also have been picked"],
];

function sample(...shapes) {
  return svg("svg", { width: 36, height: 20, "aria-hidden": "true" }, ...shapes);
}

function box(name, x = 2, y = 3) {
  return svg("rect", { class: name, x, y, width: 30, height: 14, rx: 5 });
}

/** Return the drawing of an edge whose ends a decision declined to fuse. */
function declinedEdge() {
  return svg("path", { class: "ex-edge ex-edge-declined", d: "M2 10H34M13 5l10 10m0-10l-10 10" });
}

/** Return the legend of outlines. */
function legend() {
  const rows = MARKS.map(([name, meaning]) => [sample(svg("g", { class: name }, box("ex-shape"))), meaning]);
  rows.push([sample(box("ex-under", 5, 5), box("ex-under", 1, 2)), "a closed box: a double click opens it"]);
  rows.push([sample(box("ex-frame")), "operations fused into one kernel"]);
  rows.push([sample(declinedEdge()), "a value that is written and read again: a decision declined to fuse both ends; a click on ✗ explains why"]);
  for (const [family, meaning] of Object.entries(FAMILIES)) rows.push([sample(box("ex-shape"), svg("path", { class: `ex-family ex-family-${family}`, d: "M7 7v6" })), meaning]);
  return html("dl", {}, ...rows.flatMap(([picture, meaning]) => [html("dt", {}, picture), html("dd", {}, meaning)]));
}

/** Make a button with an icon. @param {keyof typeof ICONS} icon @param {string} label */
export function iconButton(icon, label, click) {
  const button = html("button", { type: "button", class: "ex-button", title: label, "aria-label": label, click });
  button.append(drawing(icon));
  return button;
}

function drawing(icon) {
  return svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, svg("path", { d: ICONS[icon] }));
}

/** Make a menu row with an icon, a label and the equivalent key. @param {keyof typeof ICONS} icon @param {string} label @param {string} key "" for none */
export function labelledButton(icon, label, key, click) {
  return html("button", { type: "button", "aria-label": label, click }, drawing(icon), html("span", {}, label), key && html("kbd", {}, key));
}

/** Change the icon and name of a button. */
export function changeIcon(button, icon, label) {
  put(button.querySelector("path"), "d", ICONS[icon]);
  put(button, "title", label);
  put(button, "aria-label", label);
}

/** Make the help dialog, hidden at first. @param {string[]} metrics the choices of the key "h" @param {() => void} onClose @param {{key: string, meaning: string}[]} [more] keys of this view only */
export function helpBox(metrics, onClose, more = []) {
  /** @type {[string[], string][]} */
  const own = more.map(({ key, meaning }) => [[key], meaning]);
  const list = (/** @type {[string[], string][]} */ rows) => html("dl", {}, ...rows.flatMap(([keys, meaning]) => [html("dt", {}, ...keys.flatMap((key) => [html("kbd", {}, key), " "])), html("dd", {}, meaning || `colour by ${metrics.join(", ")}`)]));
  const heading = (/** @type {string} */ text) => html("h4", { "aria-level": 2 }, text);
  const close = html("button", { type: "button", class: "ex-button ex-close", "aria-label": "close", click: onClose }, "×");
  // The dialog traps Tab, because its only button is the only tab stop.
  const keydown = (event) => {
    if (event.key !== "Tab") return;
    event.preventDefault();
    close.focus();
  };
  return html("div", { class: "ex-help", role: "dialog", "aria-modal": "true", "aria-label": "outlines and keys", hidden: true, tabindex: -1, keydown }, close, html("div", {}, heading("outlines"), legend()), html("div", {}, heading("keys"), list([...own, ...KEYS]), heading("room"), list(ROOM_KEYS)));
}
