// Flow direction, down or to the right. A page contains both layouts; in a notebook the kernel computes the other one.

/** Return the other direction. @param {{direction: string}} layout */
const otherDirection = ({ direction }) => (direction === "right" ? "down" : "right");

/** Whether values flow to the right, so numbers and port names are drawn above edges that arrive from the left. @param {{direction: string}} layout */
export const flowsRight = ({ direction }) => direction === "right";

/** Return the y position of a number next to an item: at its center, or above the arriving edges. */
export const besides = (layout, top, high) => (flowsRight(layout) ? top + 1 : top + high / 2 + 4);

/** Flow direction of a view's graph. */
export class Turning {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
  }

  /** Whether the other direction is available or can be requested; for two graphs side by side Python chooses it. */
  get isPossible() {
    const { callbacks, trace } = this.view;
    return !callbacks.side && Boolean(callbacks.onTurn || trace.layout.turned);
  }

  /** Whether a direction is not the current one; null means the initial direction of the page. @param {string | null} wanted */
  isOther(wanted) {
    const { layout } = this.view.trace;
    return wanted === otherDirection(layout) || (wanted === null && Boolean(layout.isTurned));
  }

  /** Switch to the other direction. */
  turn() {
    const { callbacks, trace } = this.view;
    if (!this.isPossible) return;
    if (callbacks.onTurn) return callbacks.onTurn(otherDirection(trace.layout));
    exchangeInsides(trace.layout);
    this.view.replace();
    this.view.begin();
    this.view.selection.reveal();
    callbacks.onTurned?.();
  }
}

/** Swap the insides of a layout's boxes with the ones of the other direction. */
function exchangeInsides(layout) {
  layout.turned = layout.boxes.map((box, index) => {
    const { placed, size, ports, items, edges, labels, recorded } = box;
    Object.assign(box, layout.turned[index]);
    return { placed, size, ports, items, edges, labels, recorded };
  });
  layout.direction = otherDirection(layout);
  layout.isTurned = !layout.isTurned;
}
