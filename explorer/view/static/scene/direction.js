// Where values flow, down or to the right: a page has the layout of both, a notebook's kernel makes the other one.

/** The other direction. @param {{direction: string}} layout */
const otherDirection = ({ direction }) => (direction === "right" ? "down" : "right");

/** Whether numbers and names of ports stand above edges that arrive from the left. @param {{direction: string}} layout */
export const flowsRight = ({ direction }) => direction === "right";

/** The height of a number beside something: at its middle, or above the edges that arrive there. */
export const besides = (layout, top, high) => (flowsRight(layout) ? top + 1 : top + high / 2 + 4);

/** Turns the graph of a view. */
export class Turning {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
  }

  /** Whether the other direction is here, or can be asked for; for two graphs side by side Python chooses it. */
  get isPossible() {
    const { callbacks, trace } = this.view;
    return !callbacks.side && Boolean(callbacks.onTurn || trace.layout.turned);
  }

  /** Whether a direction is the one that is not shown; none is the one that a page begins with. @param {string | null} wanted */
  isOther(wanted) {
    const { layout } = this.view.trace;
    return wanted === otherDirection(layout) || (wanted === null && Boolean(layout.isTurned));
  }

  /** Let values flow in the other direction. */
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

/** Give the boxes of a layout their other insides, and keep those that they had. */
function exchangeInsides(layout) {
  layout.turned = layout.boxes.map((box, index) => {
    const { placed, size, ports, items, edges } = box;
    Object.assign(box, layout.turned[index]);
    return { placed, size, ports, items, edges };
  });
  layout.direction = otherDirection(layout);
  layout.isTurned = !layout.isTurned;
}
