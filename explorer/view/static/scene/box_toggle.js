// Opening and closing of boxes. Items around an opened box move away without changing their order.

import { hasFocus } from "../dom.js";
import { around } from "./outlines.js";
import { Pending } from "./lazy_layout.js";

/** Opening and closing of one view's boxes. */
export class Opening {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.layout = view.trace.layout;
    this.pending = new Pending(this.layout, view.callbacks.onPlace);
  }

  /** Open or close one box; return false if nothing changes. @param {number} box @param {boolean} [open] */
  toggle(box, open = !this.view.placement.composed.has(box)) {
    const { view } = this;
    if (view.placement.composed.has(box) === open || box === view.placement.outermost) return false;
    this.pending.when(open ? [box] : [], () => {
      for (const boxes of [view.open, view.chosen]) {
        if (open) boxes.add(box);
        else boxes.delete(box);
      }
      this.#reopened(`b${box}`);
    });
    return true;
  }

  /** Open or close every box. @param {boolean} open */
  all(open) {
    this.#only(this.layout.boxes.flatMap((box, index) => (open || box.parent < 0 ? [index] : [])));
  }

  #only(wanted) {
    this.pending.when(wanted, () => {
      this.view.open = new Set(wanted);
      this.view.chosen = new Set(wanted);
      this.#reopened(this.view.focus.key);
      this.view.fit();
    });
  }

  /** Number of boxes around each box, not counting the graph itself. @returns {number[]} */
  get depths() {
    const { boxes } = this.layout;
    /** @type {number[]} */ const depths = [];
    const order = [...this.layout.bodies];
    for (const body of order) depths[body] = -1;
    // The array grows during the iteration.
    for (const box of order) {
      for (const item of boxes[box].items) {
        if (item.box === undefined) continue;
        depths[item.box] = depths[box] + 1;
        order.push(item.box);
      }
    }
    return depths;
  }

  /** Open every box down to a depth and close deeper ones; depth 0 closes all. @param {number} depth */
  to(depth) {
    const { depths } = this;
    this.#only(this.layout.boxes.flatMap((_, box) => (depths[box] < depth ? [box] : [])));
  }

  /** Set the open boxes, for Python or linked widgets. @param {number[]} boxes @param {() => void} [act] called afterwards */
  set(boxes, act) {
    const { view } = this;
    const wanted = new Set([...boxes, ...this.layout.bodies]);
    if (wanted.size === view.open.size && [...wanted].every((box) => view.open.has(box))) return;
    this.pending.when([...wanted], () => {
      view.chosen = new Set([...wanted].filter((box) => view.chosen.has(box) || !view.open.has(box)));
      view.open = wanted;
      view.replace();
      act?.();
    });
  }

  /** Show a graph with some boxes open, then call `act`. The current graph is shown until the boxes are laid out. */
  uncover(boxes, body, act) {
    const { view } = this;
    const closed = boxes.filter((box) => !view.open.has(box));
    const hiding = boxes.filter((box) => !view.placement.composed.has(box));
    // Show the selection at once, even if its box is not laid out yet.
    if (closed.some((box) => !this.layout.boxes[box].placed)) view.show();
    this.pending.when(closed, () => {
      for (const box of hiding) view.open.add(box), view.chosen.add(box);
      if (hiding.length || body !== view.body) {
        view.body = body;
        view.replace();
        view.parts.showBody(body);
        if (closed.length) view.callbacks.onOpen?.([...view.open]);
      } else view.show();
      act();
    });
  }

  /** Update after the open boxes changed, keeping the item of `key` at its screen position. */
  #reopened(key) {
    const { view } = this;
    const { camera, canvas } = view;
    // Check before boxes are replaced, because removed elements lose the focus.
    const held = hasFocus(view.stage);
    const before = canvas.rect(key);
    view.replace();
    const after = canvas.rect(key);
    if (before && after) {
      camera.pan((before[0] + before[2] / 2 - after[0] - after[2] / 2) * camera.scale, (before[1] - after[1]) * camera.scale);
    }
    if (after) view.focus.set(key, held);
    if (after && held) camera.reveal(around([after], 20));
    view.callbacks.onOpen?.([...view.open]);
  }

  /** Cancel the waiting action. */
  end() {
    this.pending.end();
  }
}
