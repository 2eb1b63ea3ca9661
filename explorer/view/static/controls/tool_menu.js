// Menu of the tools without a toolbar button, with their labels and keys.

import { html, put } from "../dom.js";
import { RovingTabindex } from "./roving_tabindex.js";
import { iconButton } from "./toolbar.js";

/** Button and the menu that it opens. */
export class ToolMenu {
  /** @param {(HTMLElement | false)[]} tools buttons and select elements */
  constructor(tools) {
    this.root = html("div", { class: "ex-menu ex-tool-menu", popover: "auto", role: "group", "aria-label": "more tools", keydown: (event) => this.#key(event), focusout: (event) => this.#left(event), beforetoggle: (event) => this.#place(event.newState === "open"), toggle: (event) => event.newState === "open" && this.root.querySelector("button, select")?.focus(), click: (event) => this.#clicked(event), change: () => this.root.hidePopover() }, ...tools);
    new RovingTabindex(this.root, "button, select", ["ArrowUp", "ArrowDown"]);
    this.button = iconButton("more", "more tools: colours, boxes, save, help", () => {});
    put(this.button, "aria-haspopup", "true");
    put(this.button, "aria-expanded", "false");
    this.button.popoverTargetElement = this.root;
  }

  #place(isOpen) {
    put(this.button, "aria-expanded", String(isOpen));
    if (!isOpen) return;
    const { right, bottom } = this.button.getBoundingClientRect();
    const [wide, high] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
    const below = high - bottom - 12;
    Object.assign(this.root.style, { right: `${Math.max(4, wide - right)}px`, ...(below < 320 && below < bottom ? { top: "4px" } : { top: `${bottom + 4}px` }), maxHeight: `${Math.max(320, below)}px` });
  }

  /** Handle keys in the menu, which are not keys of the view. */
  #key(event) {
    if (event.key !== "Tab") event.stopPropagation();
  }

  #left({ relatedTarget }) {
    if (relatedTarget && !this.root.contains(relatedTarget) && !relatedTarget.closest(".ex-menu")) this.root.hidePopover();
  }

  /** Close after a tool's action, or, if the tool opens a menu, when that menu closes. */
  #clicked({ target }) {
    const button = target.closest("button");
    if (button && !button.popoverTargetElement) this.root.hidePopover();
  }
}
