// The address of a page: its fragment names step, selection and open boxes, so that a link leads to what a reader saw.

/** ms without a change until the address is written; browsers refuse a hundred changes in a few seconds. */
const PAUSE = 300;

/**
 * Show a view that goes where the page's address says, and writes there what a reader does. A link may be written by hand,
 * "#stage=fuse&node=softmax"; the view itself writes numbers, "#stage=fuse&step=12&node=7&direction=right&open=1,4".
 * @param {string} start the state of a page without a fragment
 * @param {(callbacks: import("../view.js").Callbacks) => import("../view.js").View} show
 */
export function keepAddress(start, show) {
  let waiting = 0;
  const write = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => history.replaceState(null, "", `#${addressOf(view)}`), PAUSE);
  };
  const view = show({ onState: write, onSelect: write, onOpen: write, onTurned: write });
  const read = () => restore(view, new URLSearchParams(location.hash.slice(1) || start));
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
  if (moved) parts.set("open", [...view.open].sort((one, other) => one - other).join(","));
  return parts.toString().replaceAll("%2C", ",");
}

/** Go where an address says; what it names and the recording does not hold is left alone. */
export function restore(view, parts) {
  const { trace, timeline, selection } = view;
  if (view.turning.isOther(parts.get("direction"))) view.turning.turn();
  if (/^\d+$/.test(parts.get("depth") ?? "")) view.opening.to(Number(parts.get("depth")));
  if (parts.has("open")) {
    const boxes = parts.get("open").split(",").map(Number);
    view.opening.set(boxes.filter((box) => trace.layout.boxes[box]));
  }
  const stage = parts.get("stage") ?? "";
  const step = /^\d+$/.test(parts.get("step") ?? "") ? Number(parts.get("step")) : -1;
  if (step >= 0) view.go(step, timeline.named(stage, -1));
  else view.goStage(stage);
  const node = nodeOf(trace, parts.get("node") ?? "");
  if (node < 0) return;
  if (step >= 0) selection.select(node, true);
  else selection.visit(node);
}

/** The node of a number, or the last one of a name or of a scope ("layer1 / conv2"); −1 for none. */
function nodeOf(trace, named) {
  if (/^\d+$/.test(named)) return Number(named) < trace.count ? Number(named) : -1;
  const names = (node) => [trace.label(node), trace.scopePath(node).join(" / ")];
  for (let node = trace.count - 1; named && node >= 0; node--) if (names(node).includes(named)) return node;
  return -1;
}
