// Lazy layout: boxes of a large graph are laid out by the kernel when a reader opens them (view/payload/view_payload.py).

import { html, say } from "../dom.js";
import { grouped } from "../data/number_format.js";
import { unpack } from "../data/unpack.js";

/** ms until a kernel that has not answered is said not to. */
const PATIENCE = 4000;

/** Boxes without a layout yet, and the act that waits for it. */
export class Pending {
  /** @param {any} layout @param {((boxes: number[]) => void) | undefined} ask asks the kernel; undefined where there is none */
  constructor(layout, ask) {
    this.layout = layout;
    this.ask = ask;
    this.wish = null;
    /** whether the kernel is planning, and answers nothing until it has */ this.isPlanning = false;
    this.root = html("div", { class: "ex-waits", role: "status", hidden: true });
  }

  /** Do something once all of some boxes are laid out: now, where they are; a later wish takes the place of one that waits. */
  when(boxes, act) {
    // Only missing boxes are asked for: the kernel may be busy, and answers one message after the other.
    const missing = boxes.filter((box) => !this.layout.boxes[box].placed);
    this.#wait(null);
    if (!missing.length) return act();
    this.#wait({ missing, act });
    this.ask?.(missing);
  }

  /** Take boxes that were laid out. @param {any} answer packed [[box, inside], …] */
  take(answer) {
    for (const [box, inside] of unpack(answer)) Object.assign(this.layout.boxes[box], inside);
    const { wish } = this;
    if (!wish || wish.missing.some((box) => !this.layout.boxes[box].placed)) return;
    this.#wait(null);
    wish.act();
  }

  /** Forget the act that waits. */
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
