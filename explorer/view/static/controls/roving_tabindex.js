// One tab stop for a group of buttons. Arrow keys move between them, as in toolbars and listboxes.

import { focused, put } from "../dom.js";

/** Single tab stop of a part's buttons, kept when they are replaced. */
export class RovingTabindex {
  /** @param {HTMLElement} root @param {string} selector of its buttons @param {[string, string]} keys for back and forward */
  constructor(root, selector, [back, forward]) {
    this.root = root;
    this.selector = selector;
    root.addEventListener("keydown", (event) => this.#key(event, back, forward));
    root.addEventListener("focusin", ({ target }) => target instanceof HTMLElement && target.matches(selector) && this.#stop(target));
    new MutationObserver(() => this.#stop()).observe(root, { childList: true, subtree: true });
    this.#stop();
  }

  /** @returns {HTMLButtonElement[]} */
  get #buttons() {
    /** @type {NodeListOf<HTMLButtonElement>} */ const buttons = this.root.querySelectorAll(this.selector);
    return [...buttons].filter((button) => !button.disabled);
  }

  /** Set the tab stop: the wanted button, else the previous tab stop, else the current choice or the first button. */
  #stop(/** @type {Element | null} */ wanted = focused(this.root)) {
    const buttons = this.#buttons;
    const stops = [wanted, this.last, buttons.find((button) => button.closest("[aria-current], .ex-now")), buttons[0]];
    const stop = stops.find((button) => buttons.includes(button));
    for (const button of buttons) put(button, "tabindex", button === stop ? 0 : -1);
    this.last = stop;
  }

  #key(event, back, forward) {
    const buttons = this.#buttons;
    const at = buttons.indexOf(event.target);
    const target = at < 0 ? undefined : { [back]: buttons[at - 1], [forward]: buttons[at + 1], Home: buttons[0], End: buttons.at(-1) }[event.key];
    if (!target) return;
    target.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}
