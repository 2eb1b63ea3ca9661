// The address of a view: step, selection and open boxes, in the fragment of its page, in links of prose, and for another view of the same recording.

/** ms without a change until the address is written; browsers refuse a hundred changes in a few seconds. */
const PAUSE = 300;

/**
 * Show a view that goes where the page's address says, and writes a reader's steps there. A link may be written by hand,
 * "#stage=fuse&node=softmax", "#stage=simplify&decision=LogOfExp", "#stage=order&kernel=3"; the view itself writes numbers, "#stage=fuse&step=12&node=7&direction=right&open=1,4".
 * @param {string} start the state of a page without a fragment
 * @param {(callbacks: import("../view.js").Callbacks) => import("../view.js").View} show
 */
export function keepAddress(start, show) {
  let waiting = 0;
  let known = location.hash;
  const write = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      // Another address was entered and is about to be read: it must not be written over.
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

/** The state of a view, as the fragment of its page's address. @param {import("../view.js").View} view */
export function addressOf(view) {
  const { layout } = view.trace;
  const parts = new URLSearchParams({ stage: view.stageName, step: String(view.now.step) });
  if (view.selection.node >= 0) parts.set("node", String(view.selection.node));
  const moved = layout.boxes.some((box, index) => Boolean(box.open) !== view.open.has(index));
  if (layout.isTurned) parts.set("direction", layout.direction);
  if (moved) parts.set("open", [...view.open].sort((a, b) => a - b).join(","));
  return parts.toString().replaceAll("%2C", ",");
}

/** Go where an address says; names that the recording does not hold are left alone. @param {import("../view.js").View} view @param {URLSearchParams} parts */
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
  if (node < 0) return;
  if (step >= 0) selection.select(node, true);
  else selection.visit(node);
}

/** The step of a number, of a decision by its rule or its code, or of a kernel by its number in the order; −1 for none. @param {import("../view.js").View} view @param {URLSearchParams} parts @param {number} stage */
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

/** The node of a number, or of a name: of several the last one that exists at the present moment, or ever; −1 for none. @param {import("../view.js").View} view @param {string} named */
function nodeOf({ trace, now }, named) {
  if (/^\d+$/.test(named)) return Number(named) < trace.count ? Number(named) : -1;
  if (!named) return -1;
  const nodes = nodesNamed(trace, named);
  return nodes.filter((node) => trace.exists(node, now.position)).at(-1) ?? nodes.at(-1) ?? -1;
}

/** The nodes of a name, in the order of `view.focus`: of a scope or operator by its path or a part of it, else of a variable, else of an operation. @param {import("../data/trace.js").Trace} trace @param {string} named */
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

/** Whether a path has another one as a stretch of it. @param {string[]} path @param {string[]} part */
function isWithin(path, part) {
  return path.some((_, start) => part.every((name, index) => path[start + index] === name));
}

/** The event that takes a view to an address, on its root. */
export const HANDOVER = "explorer-handover";

/**
 * Let the view in an element go where a reader is in another one, unless he is still at its start.
 * @param {import("../view.js").View} view @param {string} start address of the view when it was drawn @param {HTMLElement} element
 */
export function handOver(view, start, element) {
  const address = addressOf(view);
  const root = element.querySelector(".explorer-view");
  if (address !== start) root.dispatchEvent(new CustomEvent(HANDOVER, { detail: address }));
  if (!view.root.contains(document.activeElement)) return;
  /** @type {HTMLElement | null} */ (root.querySelector("[data-key][tabindex='0']"))?.focus({ preventScroll: true });
}

/** Let a view go where another one leaves a reader, or a link in prose leads. @param {import("../view.js").View} view */
export function takeOver(view) {
  view.root.addEventListener(HANDOVER, (/** @type {CustomEvent<string>} */ { detail }) => restore(view, new URLSearchParams(detail)));
}
