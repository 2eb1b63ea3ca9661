// Opening and closing boxes: items around an opened box move away, and nothing changes its order.

import { hasFocus } from "../dom.js";
import { around } from "./outlines.js";
import { Pending } from "./lazy_layout.js";

/** Opens and closes the boxes of one view. */
export class Opening {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.layout = view.trace.layout;
    this.pending = new Pending(this.layout, view.callbacks.onPlace);
  }

  /** Open or close one box; false where it is so already. @param {number} box @param {boolean} [open] */
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

  /** How many boxes are around each box; the graph itself is no box. @returns {number[]} */
  get depths() {
    const { boxes } = this.layout;
    /** @type {number[]} */ const depths = [];
    const order = [...this.layout.bodies];
    for (const body of order) depths[body] = -1;
    // An array grows while it is visited.
    for (const box of order) {
      for (const item of boxes[box].items) {
        if (item.box === undefined) continue;
        depths[item.box] = depths[box] + 1;
        order.push(item.box);
      }
    }
    return depths;
  }

  /** Open every box down to a depth, and close those below: at depth 0 all are closed. @param {number} depth */
  to(depth) {
    const { depths } = this;
    this.#only(this.layout.boxes.flatMap((_, box) => (depths[box] < depth ? [box] : [])));
  }

  /** Replace the open boxes, as Python or a link of widgets does. @param {number[]} boxes @param {() => void} [act] the next act */
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

  /** Show a graph with some of its boxes open, then do something; until they are laid out, the present graph is shown. */
  uncover(boxes, body, act) {
    const { view } = this;
    const closed = boxes.filter((box) => !view.open.has(box));
    const hiding = boxes.filter((box) => !view.placement.composed.has(box));
    // The selection is seen at once, though its box is still to be laid out.
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

  /** Show other boxes open; the item of `key` stays where it is on the screen. */
  #reopened(key) {
    const { view } = this;
    const { camera, canvas } = view;
    // Asked before boxes are replaced: an element that goes takes the focus with it.
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
