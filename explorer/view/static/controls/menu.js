// Menus: a button and the list that it opens. Arrow keys, Home, End and typing move through the list, and Escape closes it.

import { focused, html, put } from "../dom.js";
import { RovingTabindex } from "./roving_tabindex.js";
import { TypeAhead } from "./type_ahead.js";

/** px between a menu and the border of the window, and px of height that a menu has at least. */
const [MARGIN, LEAST] = [4, 320];

/** List of buttons and select elements that a button opens. */
export class Menu {
  /**
   * @param {any} button a button element, whose properties for popovers TypeScript does not know yet
   * @param {(HTMLElement | false)[]} items
   * @param {{name: string, role?: "menu" | "group", style?: string, opening?: () => void}} options role: "menu" for items with the role "menuitem"; style: its CSS class; opening: called before the menu opens
   */
  constructor(button, items, { name, role = "group", style = "", opening = () => {} }) {
    this.button = button;
    this.opening = opening;
    this.typed = new TypeAhead();
    this.root = html("div", {
      class: `ex-menu ${style}`.trim(), popover: "auto", role, "aria-label": name,
      keydown: (event) => this.#key(event), focusout: (event) => this.#left(event), click: (event) => this.#clicked(event), change: () => this.root.hidePopover(),
      beforetoggle: (event) => this.#place(event.newState === "open"), toggle: (event) => this.#toggled(event.newState === "open"),
    }, ...items);
    new RovingTabindex(this.root, "button, select", ["ArrowUp", "ArrowDown"]);
    put(button, "aria-haspopup", role === "menu" ? "menu" : "true");
    put(button, "aria-expanded", "false");
    button.popoverTargetElement = this.root;
  }

  /** The items that can be chosen. @returns {(HTMLButtonElement | HTMLSelectElement)[]} */
  get #items() {
    /** @type {NodeListOf<HTMLButtonElement | HTMLSelectElement>} */ const items = this.root.querySelectorAll("button, select");
    return [...items].filter((item) => !item.disabled);
  }

  #place(isOpen) {
    put(this.button, "aria-expanded", String(isOpen));
    if (!isOpen) return;
    this.opening();
    place(this.root, this.button);
  }

  #toggled(isOpen) {
    const active = focused(this.root);
    if (isOpen) this.#items[0]?.focus();
    // Browsers do not return the focus to a button inside another popover.
    else if ((active === document.body || this.root.contains(active)) && this.button.checkVisibility()) this.button.focus();
  }

  /** Handle keys in the menu, which are not keys of the view. */
  #key(event) {
    if (event.key !== "Tab") event.stopPropagation();
    // A select element finds its own options.
    if (!event.target.matches("button") || event.defaultPrevented || !this.typed.takes(event)) return;
    const items = this.#items;
    items[this.typed.find(event, items.map((item) => item.getAttribute("aria-label") || item.textContent), items.indexOf(event.target))]?.focus();
    event.preventDefault();
  }

  #left({ relatedTarget }) {
    // The menu stays open while the focus is in a menu that one of its items opened.
    if (relatedTarget && !this.root.contains(relatedTarget) && !relatedTarget.closest(".ex-menu")) this.root.hidePopover();
  }

  /** Close after an action, or, if the item opens a menu, when that menu closes. */
  #clicked({ target }) {
    const item = target.closest("button");
    if (item && !item.popoverTargetElement && !item.hasAttribute("aria-disabled")) this.root.hidePopover();
  }
}

/** Move a menu below its button, or, if there is too little space, to the top of the window. @param {HTMLElement} menu @param {HTMLElement} button */
export function place(menu, button) {
  const { right, bottom } = button.getBoundingClientRect();
  const [wide, high] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
  const below = high - bottom - 3 * MARGIN;
  const top = below < LEAST && below < bottom ? MARGIN : bottom + MARGIN;
  Object.assign(menu.style, { right: `${Math.max(MARGIN, wide - right)}px`, top: `${top}px`, maxHeight: `${Math.max(LEAST, below)}px` });
}
