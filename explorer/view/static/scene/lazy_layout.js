// Lazy layout: the kernel lays out boxes of a large graph when the reader opens them (view/payload/view_payload.py).

import { html, say } from "../dom.js";
import { grouped } from "../data/number_format.js";
import { unpack } from "../data/unpack.js";

/** ms after which a missing answer of the kernel is reported. */
const PATIENCE = 4000;

/** Boxes without a layout, and the action that waits for them. */
export class Pending {
  /** @param {any} layout @param {((boxes: number[]) => void) | undefined} ask requests layouts from the kernel; undefined without a kernel */
  constructor(layout, ask) {
    this.layout = layout;
    this.ask = ask;
    this.wish = null;
    /** whether the kernel is still planning, during which it does not answer */ this.isPlanning = false;
    this.root = html("div", { class: "ex-waits", role: "status", hidden: true });
  }

  /** Call `act` once all of the boxes are laid out, or now if they are. A later call replaces a waiting one. */
  when(boxes, act) {
    // Request only missing boxes, because the kernel may be busy and answers messages one by one.
    const missing = boxes.filter((box) => !this.layout.boxes[box].placed);
    this.#wait(null);
    if (!missing.length) return act();
    this.#wait({ missing, act });
    this.ask?.(missing);
  }

  /** Receive the layouts of boxes. @param {any} answer packed [[box, inside], …] */
  take(answer) {
    for (const [box, inside] of unpack(answer)) Object.assign(this.layout.boxes[box], inside);
    const { wish } = this;
    if (!wish || wish.missing.some((box) => !this.layout.boxes[box].placed)) return;
    this.#wait(null);
    wish.act();
  }

  /** Drop the waiting action. */
  end() {
    this.#wait(null);
  }

  #wait(wish) {
    clearTimeout(this.timer);
    this.wish = wish;
    this.root.hidden = wish === null;
    if (wish === null) return;
    const count = wish.missing.length;
    const subject = count === 1 ? "this box" : `${grouped(count)} boxes`;
    const fix = `${subject} cannot be laid out: the notebook's kernel does not answer. Run the cell again.`;
    if (this.isPlanning) return say(this.root, `${count === 1 ? "This box opens" : "These boxes open"} once the graph is planned.`);
    say(this.root, this.ask ? `laying out ${subject} …` : fix);
    if (this.ask) this.timer = setTimeout(() => say(this.root, fix), PATIENCE);
  }
}
