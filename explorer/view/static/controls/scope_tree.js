// The tree of boxes next to the canvas, with contents and costs. Expanding a row opens its box on the canvas, and vice versa.

import { hasFocus, html, put, say } from "../dom.js";
import { counted, shortCounted } from "../data/number_format.js";
import { boxValue, metricText } from "../data/totals.js";
import { TypeAhead } from "./type_ahead.js";
import { VirtualRows } from "./virtual_rows.js";

/** Height of a row in px, as in scope_tree.css. */
const HIGH = 24;

/** Tree of one view's boxes (WAI-ARIA tree pattern). */
export class ScopeTree {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    /** the costs and placement that the rows were computed for */ this.listed = { costs: null, placement: null };
    this.rows = [];
    /** the row of the tree's tab stop */ this.stop = -1;
    this.chosen = -1;
    /** @type {import("../data/totals.js").Metric | undefined} the metric shown in the rows */ this.metric = undefined;
    this.typed = new TypeAhead();
    this.root = html("div", { class: "ex-tree", role: "tree", "aria-label": "boxes", keydown: (event) => this.#key(event), click: (event) => this.#click(event), dblclick: (event) => this.#toggle(event) });
    this.scopeRows = new ScopeRows(view.trace.layout);
    /** @type {VirtualRows<ScopeRow>} */
    this.drawn = new VirtualRows(this.root, HIGH, makeRow, (element, row) => this.#fill(element, row));
  }

  /** Whether the reader has turned it on and there is something to show. */
  get isShown() {
    return Boolean(this.view.sizes.chosen.tree) && this.view.trace.layout.boxes.length > 1;
  }

  /** Update the open boxes and the selection. Nothing is created while the tree is hidden; unchanged rows are kept. */
  show() {
    const { view, listed } = this;
    put(this.root, "hidden", !this.isShown);
    if (!this.isShown) return;
    const { placement, now, body, totals, heat } = view;
    const costs = totals.at(now.position);
    const chosen = this.#innermost();
    const metric = totals.metrics.find(({ name }) => name === heat.measure) ?? totals.metrics.find(({ name }) => name === "time") ?? totals.metrics[0];
    const isListed = listed.costs === costs && listed.placement === placement;
    if (isListed && chosen === this.chosen && metric === this.metric) return;
    const [isFirst, isMoved, held] = [!listed.placement, chosen !== this.chosen, hasFocus(this.root)];
    Object.assign(this, { listed: { costs, placement }, chosen, metric });
    if (!isListed) this.rows = this.scopeRows.list(view.trace.layout.bodies[body], placement.composed, costs);
    const stop = this.#standing(isFirst ? chosen : this.stop);
    const isOther = stop !== this.stop;
    this.stop = stop;
    this.drawn.show(this.rows, stop);
    if (held && isOther) this.#rove(stop, true);
    else if (isMoved && !held) this.drawn.reveal(chosen);
  }

  /** Focus the tree. */
  take() {
    this.#rove(this.stop, true);
  }

  /** Disconnect the observer. */
  end() {
    this.drawn.end();
  }

  /** Return the selected box, or the innermost box of the tree around the selected node. */
  #innermost() {
    const { selection, trace, placement } = this.view;
    let box = selection.box >= 0 ? selection.box : selection.slot < 0 ? -1 : trace.boxOf[selection.slot];
    while (box >= 0 && trace.layout.boxes[box].parent >= 0 && !placement.composed.has(trace.layout.boxes[box].parent)) box = trace.layout.boxes[box].parent;
    return box;
  }

  /** Return the row of a box, else of the innermost box around it that has a row, else the first row. */
  #standing(box) {
    const { boxes } = this.view.trace.layout;
    const there = new Set(this.rows.map(({ key }) => key));
    while (box >= 0 && !there.has(box)) box = boxes[box].parent;
    return box >= 0 ? box : (this.rows[0]?.key ?? -1);
  }

  #name(box) {
    return this.view.trace.layout.boxes[box].text[0];
  }

  /** @param {HTMLElement} element @param {ScopeRow} row */
  #fill(element, { key, level, place, count, holds, isOpen }) {
    const cost = this.listed.costs[key];
    const name = this.#name(key);
    const amount = boxValue(this.metric, cost);
    const measured = amount ? metricText(this.metric, amount) : "";
    const said = [counted(cost.operations, "operation"), cost.parameters && shortCounted(cost.parameters, "parameter"), measured].filter(Boolean).join(", ");
    const attributes = {
      "data-box": key,
      tabindex: key === this.stop ? 0 : -1,
      title: said,
      "aria-label": `${name}, ${said}`,
      "aria-level": level,
      "aria-setsize": count,
      "aria-posinset": place,
      "aria-selected": String(key === this.chosen),
      "aria-expanded": holds && String(isOpen),
    };
    for (const [attribute, value] of Object.entries(attributes)) put(element, attribute, value);
    [holds ? (isOpen ? "▾" : "▸") : "", name, measured].forEach((text, part) => say(element.children[part], text));
  }

  /** Make a row the tree's only tab stop, scroll it into view and optionally focus it. */
  #rove(box, focus) {
    this.stop = box;
    this.drawn.show(this.rows, box);
    this.drawn.reveal(box);
    if (focus) this.drawn.elements.get(box)?.focus({ preventScroll: true });
  }

  /** Return the box of the row under the pointer, −1 if there is none. */
  #at({ target }) {
    return Number(target.closest("[data-box]")?.dataset.box ?? -1);
  }

  #click(event) {
    const box = this.#at(event);
    if (box < 0) return;
    this.#rove(box, true);
    if (event.target.closest(".ex-twisty")?.textContent) this.view.opening.toggle(box);
    else this.view.selection.visitBox(box);
  }

  #toggle(event) {
    const box = this.#at(event);
    if (box >= 0 && !event.target.closest(".ex-twisty")?.textContent) this.view.opening.toggle(box);
  }

  #key(event) {
    const { view, stop, rows } = this;
    const at = this.drawn.places.get(stop) ?? -1;
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const { isOpen, holds, level } = rows[at];
    const { opening, selection } = view;
    const to = (place) => rows[place] && this.#rove(rows[place].key, true);
    const select = () => selection.visitBox(stop);
    /** @type {Record<string, () => unknown>} */
    const acts = {
      ArrowDown: () => to(at + 1),
      ArrowUp: () => to(at - 1),
      PageDown: () => to(Math.min(at + this.drawn.page, rows.length - 1)),
      PageUp: () => to(Math.max(at - this.drawn.page, 0)),
      Home: () => to(0),
      End: () => to(rows.length - 1),
      ArrowRight: () => holds && (!isOpen ? opening.toggle(stop, true) : rows[at + 1]?.level > level && to(at + 1)),
      ArrowLeft: () => (holds && isOpen ? opening.toggle(stop, false) : to(this.drawn.places.get(view.trace.layout.boxes[stop].parent))),
      "+": () => opening.toggle(stop, true),
      "-": () => opening.toggle(stop, false),
      Enter: select,
      " ": select,
      Escape: () => view.focus.take(),
    };
    const isTyped = this.typed.takes(event);
    const act = isTyped ? () => to(this.typed.find(event, rows.map(({ key }) => this.#name(key)), at)) : acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

function makeRow() {
  return html("div", { class: "ex-tree-row", role: "treeitem" }, html("span", { class: "ex-twisty", "aria-hidden": "true" }), html("span", { class: "ex-tree-name" }), html("span", { class: "ex-soft" }));
}

/** @typedef {{key: number, level: number, place: number, count: number, holds: boolean, isOpen: boolean}} ScopeRow key: its box; place: position among its `count` siblings, from 1; holds: whether it contains boxes */

/** List of the non-empty boxes whose outer boxes are all open, outer boxes first. */
class ScopeRows {
  /** @param {import("../types").LayoutTables} layout */
  constructor(layout) {
    /** @type {number[][]} box → the boxes in it */
    this.inner = layout.boxes.map(({ items }) => items.flatMap(({ box }) => (box === undefined ? [] : [box])));
  }

  /** @param {number} outermost @param {ReadonlyMap<number, any>} open @param {import("../data/totals.js").Cost[]} costs @returns {ScopeRow[]} */
  list(outermost, open, costs) {
    const isThere = (box) => costs[box].nodes > 0;
    const within = (box, level) => ({ boxes: this.inner[box].filter(isThere), place: 0, level });
    /** @type {ScopeRow[]} */ const rows = [];
    // A stack, since boxes may be nested ten thousand deep.
    const waiting = [within(outermost, 1)];
    while (waiting.length) {
      const part = waiting.at(-1);
      if (part.place >= part.boxes.length) {
        waiting.pop();
        continue;
      }
      const key = part.boxes[part.place++];
      const isOpen = open.has(key);
      rows.push({ key, level: part.level, place: part.place, count: part.boxes.length, holds: this.inner[key].some(isThere), isOpen });
      if (isOpen) waiting.push(within(key, part.level + 1));
    }
    return rows;
  }
}
