// Keyboard focus of the canvas: exactly one item is in the tab order.

import { grouped } from "../data/number_format.js";
import { put } from "../dom.js";
import { around } from "../scene/outlines.js";
import { along, focusable, neighbour } from "./keyboard_neighbour.js";

/** Neighbours of an item that are told by name. */
const NAMED = 4;

/** Moves one tab stop over the canvas of a view. */
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

  /** Make an item the tab stop, and give it the focus if the view has it or it is asked for; the tree of boxes and the source keep their own. @param {string} key @param {boolean} real */
  set(key, real) {
    this.key = key;
    this.rove();
    const { root, canvas } = this.view;
    this.#describe();
    const active = document.activeElement;
    if (real || (root.contains(active) && !active.closest(".ex-tree, .ex-listing"))) canvas.element(key)?.focus({ preventScroll: true });
  }

  /** Tell a screen reader the operands of an item, and its readers: edges cannot have the focus. */
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

  /** Take note of the item that has the focus, however it came there; the keyboard brings it into sight. @param {string} key */
  noticed(key) {
    if (!key) return;
    this.key = key;
    this.rove();
    this.#describe();
    const { canvas, camera } = this.view;
    if (canvas.element(key)?.matches(":focus-visible")) camera.reveal(around([canvas.rect(key)], 20));
  }

  /** Do an act that may remove the item with the focus: then the canvas keeps it. @param {() => void} act */
  keep(act) {
    const held = this.view.stage.contains(document.activeElement);
    act();
    if (held && !isDrawn(document.activeElement)) this.take();
  }

  /** Give the canvas the keyboard. */
  take() {
    const { stage } = this.view;
    if (this.key) this.set(this.key, true);
    // Nothing is on the canvas, or nothing that can have the focus.
    if (!stage.contains(document.activeElement)) stage.focus({ preventScroll: true });
  }

  /** Walk along an edge or sideways. @param {string} arrow */
  walk(arrow) {
    const { canvas, scene } = this.view;
    const key = neighbour(canvas, scene, this.key, arrow);
    if (key) this.set(key, true);
  }
}

/** Whether an element can have the focus: it is on the page, and not one of a box that holds nothing now. */
function isDrawn(element) {
  return Boolean(element?.isConnected) && element !== document.body && !element.classList.contains("ex-none");
}
