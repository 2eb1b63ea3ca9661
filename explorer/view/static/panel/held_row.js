// The row of a decision that a reader pressed: it stays where it is while the panel around it is filled anew.

import { html, put } from "../dom.js";

/** Holds at most one row of a panel. */
export class HeldRow {
  /** @param {HTMLElement} root the panel, which scrolls */
  constructor(root) {
    this.root = root;
    /** @type {{decision: string, top: number, hasFocus: boolean} | undefined} */ this.held = undefined;
    /** whether the row is being pressed now */ this.isPressed = false;
    root.addEventListener("click", (event) => this.#press(event.target), { capture: true });
    root.addEventListener("click", () => (this.isPressed = false));
  }

  #press(target) {
    const row = target instanceof Element && target.closest(".ex-decisions [data-decision]");
    if (!(row instanceof HTMLElement)) return;
    this.isPressed = true;
    this.#hold(row);
  }

  #hold(row) {
    this.held = { decision: row.dataset.decision, top: this.#top(row), hasFocus: row.contains(document.activeElement) };
  }

  #row() {
    return this.root.querySelector(`.ex-decisions [data-decision="${this.held.decision}"]`);
  }

  /** px from the top of the window: the parts above the panel may take another height. */
  #top(row) {
    return row.getBoundingClientRect().top;
  }

  /** Fill the panel with other content, or with the same again; returns whether a row kept its place. @param {boolean} isSame @param {() => void} fill */
  around(isSame, fill) {
    if (!this.isPressed) {
      const row = isSame && this.held && this.#row();
      if (row) this.#hold(row);
      else this.held = undefined;
    }
    fill();
    const row = this.held && this.#row();
    if (row) this.#settle(row);
    return Boolean(row);
  }

  /** Scroll the row to its place, with the first lines of the panel in sight if they can be; where the panel is too short for that, room is left above the list or below it. */
  #settle(row) {
    const { root } = this;
    const { top, hasFocus } = this.held;
    const away = this.#top(row) + root.scrollTop - top;
    if (away < 0) this.#leaveRoom(row, -away);
    const missing = away - (root.scrollHeight - root.clientHeight);
    if (missing > 0) root.append(html("div", { class: "ex-room", style: `height:${missing}px` }));
    root.scrollTop = Math.max(0, away);
    if (hasFocus) row.focus({ preventScroll: true });
  }

  /** Leave room above a list, less the room that its margins take when they stand apart. */
  #leaveRoom(row, px) {
    const before = this.#top(row);
    const room = html("div", { class: "ex-room" });
    this.#listOf(row).before(room);
    put(room, "style", `height:${px - (this.#top(row) - before)}px`);
  }

  /** The first element of the list, its heading. */
  #listOf(row) {
    let part = row;
    while (part.parentElement !== this.root) part = part.parentElement;
    return part.previousElementSibling?.tagName === "H5" ? part.previousElementSibling : part;
  }
}
