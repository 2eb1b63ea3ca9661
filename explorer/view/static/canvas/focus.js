// Keyboard focus of the canvas: exactly one item is in the tab order.

import { grouped } from "../data/number_format.js";
import { focused, hasFocus, put } from "../dom.js";
import { around } from "../scene/outlines.js";
import { along, focusable, neighbour } from "./keyboard_neighbour.js";

/** Maximum number of an item's neighbours that are named. */
const NAMED = 4;

/** The single tab stop of a view's canvas. */
export class Focus {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.key = "";
    this.stop = null;
  }

  /** Keep exactly one item of the canvas in the tab order. */
  rove() {
    const { canvas, scene } = this.view;
    if (!canvas.stands(this.key)) this.key = focusable(canvas, scene)[0] ?? "";
    canvas.hold(this.key);
    const element = canvas.element(this.key);
    if (element === this.stop) return;
    if (this.stop) put(this.stop, "tabindex", -1);
    if (element) put(element, "tabindex", 0);
    this.stop = element;
  }

  /** Make an item the tab stop. Focus it if `real` is set or the view has the focus, unless the focus is in the tree of boxes, the source or the code of a kernel. @param {string} key @param {boolean} real */
  set(key, real) {
    this.key = key;
    this.rove();
    const { root, canvas } = this.view;
    this.#describe();
    const active = focused(root);
    if (real || (root.contains(active) && !active.closest(".ex-tree, .ex-listing, .ex-kernel-code"))) canvas.element(key)?.focus({ preventScroll: true });
  }

  /** Describe an item's operands and readers to screen readers, since edges cannot have the focus. */
  #describe() {
    const { canvas, scene, trace } = this.view;
    if (!this.stop || !scene) return;
    const name = (key) => (key[0] === "n" ? trace.namedLabel(scene.slots.get(Number(key.slice(1))).node) : trace.layout.boxes[Number(key.slice(1))].text[0]);
    const tell = (words, keys) => {
      const more = keys.length - NAMED;
      return keys.length > 0 && `${words} ${keys.slice(0, NAMED).map(name).join(", ")}${more > 0 ? ` and ${grouped(more)} more` : ""}`;
    };
    const phrases = [tell("reads", along(canvas, scene, this.key, true)), tell("read by", along(canvas, scene, this.key, false))].filter(Boolean);
    put(this.stop, "aria-description", phrases.join("; ") || false);
  }

  /** Record the item that received the focus. If the keyboard moved the focus, scroll the item into view. @param {string} key */
  noticed(key) {
    if (!key) return;
    this.key = key;
    this.rove();
    this.#describe();
    const { canvas, camera } = this.view;
    if (canvas.element(key)?.matches(":focus-visible")) camera.reveal(around([canvas.rect(key)], 20));
  }

  /** Call `act`, which may remove the focused item; in this case keep the focus on the canvas. @param {() => void} act */
  keep(act) {
    const { stage } = this.view;
    const held = hasFocus(stage);
    act();
    if (held && !isDrawn(focused(stage))) this.take();
  }

  /** Focus the canvas. */
  take() {
    const { stage } = this.view;
    if (this.key) this.set(this.key, true);
    // The canvas is empty or has no focusable item.
    if (!hasFocus(stage)) stage.focus({ preventScroll: true });
  }

  /** Move the focus along an edge or sideways. @param {string} arrow */
  walk(arrow) {
    const { canvas, scene } = this.view;
    const key = neighbour(canvas, scene, this.key, arrow);
    if (key) this.set(key, true);
  }
}

/**
 * Focus the canvas whenever the focused element of a view is removed, hidden or disabled and nothing else has received
 * the focus, because the page would receive the next keys.
 * @param {import("../view.js").View} view
 */
export function keepFocus(view) {
  const { root } = view;
  root.addEventListener("focusout", ({ target, relatedTarget }) => {
    if (relatedTarget) return;
    // Other parts move the focus themselves before.
    queueMicrotask(() => {
      if (root.isConnected && focused(root) === document.body && !canHaveFocus(target)) view.focus.take();
    });
  });
}

/** Whether an element could still have the focus. @param {HTMLElement} element */
function canHaveFocus(element) {
  const isPossible = element.tabIndex >= 0 || element.hasAttribute("tabindex");
  return isPossible && element.isConnected && !element.matches(":disabled") && element.checkVisibility({ visibilityProperty: true });
}

/** Whether an element can have the focus: it is on the page and does not belong to a box that is empty now. */
function isDrawn(element) {
  return Boolean(element?.isConnected) && element !== document.body && !element.classList.contains("ex-none");
}
