// The address of a view: its step, selection and open boxes, used in URL fragments, links in prose, and transfers to another view of the same recording.

import { hasFocus } from "../dom.js";

/** ms without a change before the address is written, because browsers reject a hundred changes within a few seconds. */
const PAUSE = 300;

/**
 * Show a view that restores its state from the page's URL fragment and writes changes to it. Handwritten forms are
 * "#stage=fuse&node=softmax", "#stage=simplify&decision=LogOfExp", "#stage=order&kernel=3". The view writes numbers, "#stage=fuse&step=12&node=7&direction=right&open=1,4".
 * @param {string} start the state of a page without a fragment
 * @param {(callbacks: import("../view.js").Callbacks) => import("../view.js").View} show
 */
export function keepAddress(start, show) {
  let waiting = 0;
  let known = location.hash;
  const write = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      // Another address was entered and is about to be read, so it must not be overwritten.
      if (location.hash !== known) return;
      history.replaceState(null, "", `#${addressOf(view)}`);
      known = location.hash;
    }, PAUSE);
  };
  const view = show({ onState: write, onSelect: write, onOpen: write, onTurned: write });
  const read = () => {
    known = location.hash;
    restore(view, new URLSearchParams(known.slice(1) || start));
  };
  addEventListener("hashchange", read);
  read();
}

/** Return the state of a view as a URL fragment. @param {import("../view.js").View} view */
export function addressOf(view) {
  const { layout } = view.trace;
  const parts = new URLSearchParams({ stage: view.stageName, step: String(view.now.step) });
  if (view.selection.node >= 0) parts.set("node", String(view.selection.node));
  const moved = layout.boxes.some((box, index) => Boolean(box.open) !== view.open.has(index));
  if (layout.isTurned) parts.set("direction", layout.direction);
  if (moved) parts.set("open", [...view.open].sort((a, b) => a - b).join(","));
  return parts.toString().replaceAll("%2C", ",");
}

/** Restore the state in an address; the line above the canvas states which names the recording does not contain. @param {import("../view.js").View} view @param {URLSearchParams} parts */
export function restore(view, parts) {
  const { trace, timeline, selection } = view;
  if (view.turning.isOther(parts.get("direction"))) view.turning.turn();
  if (/^\d+$/.test(parts.get("depth") ?? "")) view.opening.to(Number(parts.get("depth")));
  if (parts.has("open")) {
    const boxes = parts.get("open").split(",").map(Number);
    view.opening.set(boxes.filter((box) => trace.layout.boxes[box]));
  }
  const stage = timeline.named(parts.get("stage") ?? "", -1);
  const step = stepOf(view, parts, stage);
  if (step >= 0) view.go(step, stage);
  else view.goStage(parts.get("stage") ?? "");
  const node = nodeOf(view, parts.get("node") ?? "");
  if (node >= 0) {
    if (step >= 0) selection.select(node, true);
    else selection.visit(node);
  }
  const isFound = { stage, node, decision: step, kernel: step };
  const missing = Object.keys(isFound).filter((name) => parts.get(name) && isFound[name] < 0);
  if (missing.length) view.parts.sentence.tell(`The link names what this graph does not have: ${missing.map((name) => `${name} "${parts.get(name)}"`).join(", ")}.`);
}

/** Return the step given by a number, by a decision's rule or code, or by a kernel's number in the order; −1 for none. @param {import("../view.js").View} view @param {URLSearchParams} parts @param {number} stage */
function stepOf({ trace, timeline }, parts, stage) {
  const number = (name) => (/^\d+$/.test(parts.get(name) ?? "") ? Number(parts.get(name)) : -1);
  if (parts.has("decision")) {
    const named = ({ rule, code, stage: row }) => [rule, code].includes(parts.get("decision")) && (stage < 0 || row === stage);
    const decision = trace.decisions.findIndex(named);
    return decision < 0 ? -1 : timeline.afterDecision(decision);
  }
  if (parts.has("kernel")) return timeline.ofKernel(number("kernel") - 1, timeline.stages[stage]?.kind ?? "");
  return number("step");
}

/** Return the node with a number or name, −1 if there is none. Of several nodes, prefer the last one that exists at the current moment, else the last one. @param {import("../view.js").View} view @param {string} named */
function nodeOf({ trace, now }, named) {
  if (/^\d+$/.test(named)) return Number(named) < trace.count ? Number(named) : -1;
  if (!named) return -1;
  const nodes = nodesNamed(trace, named);
  return nodes.filter((node) => trace.exists(node, now.position)).at(-1) ?? nodes.at(-1) ?? -1;
}

/** Return the nodes with a name, with the precedence of `view.focus`: a scope or operator by its path or a part of it, else a variable, else an operation. @param {import("../data/trace.js").Trace} trace @param {string} named */
function nodesNamed(trace, named) {
  const paths = [named.split(" / "), named.split(/[/.]/).filter(Boolean)].filter(({ length }) => length);
  const all = [...trace.nodes.label.keys()];
  const isNamed = [
    (node) => paths.some((path) => isWithin(trace.scopePath(node), path)),
    (node) => trace.variable(node) === named,
    (node) => [trace.label(node), trace.namedLabel(node)].includes(named),
  ];
  return isNamed.map((is) => all.filter(is)).find(({ length }) => length) ?? [];
}

/** Whether a path contains another one as a contiguous part. @param {string[]} path @param {string[]} part */
function isWithin(path, part) {
  return path.some((_, start) => part.every((name, index) => path[start + index] === name));
}

/** Event on a view's root that moves the view to an address. */
export const HANDOVER = "explorer-handover";

/**
 * Move the view in an element to the reader's state in another view, unless the reader is still at its start.
 * @param {import("../view.js").View} view @param {string} start address of the view when it was drawn @param {HTMLElement} element
 */
export function handOver(view, start, element) {
  const address = addressOf(view);
  const root = element.querySelector(".explorer-view");
  if (address !== start) root.dispatchEvent(new CustomEvent(HANDOVER, { detail: address }));
  if (!hasFocus(view.root)) return;
  /** @type {HTMLElement | null} */ (root.querySelector("[data-key][tabindex='0']"))?.focus({ preventScroll: true });
}

/** Let other views and links in prose move this view. @param {import("../view.js").View} view */
export function takeOver(view) {
  view.root.addEventListener(HANDOVER, (/** @type {CustomEvent<string>} */ { detail }) => restore(view, new URLSearchParams(detail)));
}
