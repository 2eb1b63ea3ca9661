// The tree of boxes beside the canvas: what contains what, at which cost. A row opens its box on the canvas, and is open while that is.

import { html, put } from "../dom.js";
import { countText, counted, grouped } from "../data/number_format.js";
import { metricText, sumName } from "../data/totals.js";

/** Rows inside one box that are shown; the others are counted. */
const LISTED = 200;

/** Tree of one view's boxes (WAI-ARIA's pattern of a tree). */
export class ScopeTree {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.drawn = "";
    this.stop = -1;
    this.root = html("div", { class: "ex-tree", role: "tree", "aria-label": "boxes", keydown: (event) => this.#key(event), click: (event) => this.#click(event) });
  }

  /** Whether a reader wants it, and there is something to show. */
  get isShown() {
    return Boolean(this.view.sizes.chosen.tree) && this.view.trace.layout.boxes.length > 1;
  }

  /** Show what is open and selected now; nothing is made while the tree is hidden. */
  show() {
    const { view } = this;
    put(this.root, "hidden", !this.isShown);
    if (!this.isShown) return;
    const { placement, now, selection, body, totals } = view;
    const chosen = this.#chosen();
    const drawn = [body, now.position, chosen, view.heat.measure, [...placement.composed].join()].join("|");
    if (drawn === this.drawn) return;
    const held = this.root.contains(document.activeElement);
    const moved = selection.box >= 0 || selection.node >= 0;
    this.drawn = drawn;
    this.costs = totals.at(now.position);
    this.metric = totals.metrics.find(({ name }) => name === view.heat.measure) ?? totals.metrics.find(({ name }) => name === "time") ?? totals.metrics[0];
    const rows = this.#rows(view.trace.layout.bodies[body], chosen);
    this.root.replaceChildren(...rows);
    const boxes = rows.map((row) => Number(row.dataset.box ?? -1));
    if (!boxes.includes(this.stop)) this.stop = boxes.includes(chosen) ? chosen : (boxes[0] ?? -1);
    this.#rove(this.stop, held);
    if (moved && chosen >= 0 && !held) this.#row(chosen)?.scrollIntoView({ block: "nearest" });
  }

  /** Take the focus. */
  take() {
    this.#rove(this.stop, true);
  }

  /** The box that is selected, or the innermost one in the tree around the selected node. */
  #chosen() {
    const { selection, trace, placement } = this.view;
    let box = selection.box >= 0 ? selection.box : selection.slot < 0 ? -1 : trace.boxOf[selection.slot];
    while (box >= 0 && trace.layout.boxes[box].parent >= 0 && !placement.composed.has(trace.layout.boxes[box].parent)) box = trace.layout.boxes[box].parent;
    return box;
  }

  /** Rows of what is open, outside in; a stack, since boxes may be nested ten thousand deep. @returns {HTMLElement[]} */
  #rows(outermost, chosen) {
    const { boxes } = this.view.trace.layout;
    const inner = (box) => boxes[box].items.flatMap((item) => (item.box !== undefined && this.costs[item.box].nodes ? [item.box] : []));
    const rows = [];
    const waiting = [{ boxes: inner(outermost), at: 0, level: 1 }];
    while (waiting.length) {
      const part = waiting.at(-1);
      if (part.at >= Math.min(part.boxes.length, LISTED)) {
        if (part.boxes.length > LISTED) rows.push(html("div", { class: "ex-soft", style: `padding-left:${part.level * 12 + 10}px` }, `and ${grouped(part.boxes.length - LISTED)} more`));
        waiting.pop();
        continue;
      }
      const box = part.boxes[part.at++];
      rows.push(this.#item(box, part, chosen));
      if (this.view.placement.composed.has(box)) waiting.push({ boxes: inner(box), at: 0, level: part.level + 1 });
    }
    return rows;
  }

  #item(box, { boxes, at, level }, chosen) {
    const { layout } = this.view.trace;
    const cost = this.costs[box];
    const open = this.view.placement.composed.has(box);
    const [name] = layout.boxes[box].text;
    const amount = cost[sumName(this.metric)];
    const said = [counted(cost.operations, "operation"), cost.parameters && `${countText(cost.parameters)} parameters`, amount && metricText(this.metric, amount)].filter(Boolean);
    const attributes = { role: "treeitem", "aria-level": level, "aria-expanded": String(open), "aria-selected": String(box === chosen), "aria-setsize": boxes.length, "aria-posinset": at };
    return html(
      "div",
      { class: "ex-tree-row", "data-box": box, tabindex: -1, title: said.join(", "), "aria-label": `${name}, ${said.join(", ")}`, style: `padding-left:${level * 12 - 6}px`, ...attributes },
      html("span", { class: "ex-twisty", "aria-hidden": "true" }, open ? "▾" : "▸"),
      html("span", { class: "ex-tree-name" }, name),
      html("span", { class: "ex-soft" }, amount ? metricText(this.metric, amount) : ""),
    );
  }

  /** @returns {HTMLElement | null} */
  #row(box) {
    return this.root.querySelector(`[data-box="${box}"]`);
  }

  /** Make a row the tree's only tab stop, and let it have the focus. */
  #rove(box, focus) {
    this.stop = box;
    for (const row of this.root.querySelectorAll("[tabindex='0']")) put(row, "tabindex", -1);
    const row = this.#row(box);
    if (!row) return;
    put(row, "tabindex", 0);
    if (focus) row.focus();
  }

  #click(event) {
    const row = event.target instanceof Element ? event.target.closest("[data-box]") : null;
    if (!(row instanceof HTMLElement)) return;
    const box = Number(row.dataset.box);
    this.#rove(box, true);
    if (event.target.closest(".ex-twisty")) this.view.opening.toggle(box);
    else this.view.selection.visitBox(box);
  }

  #key(event) {
    const { view, stop } = this;
    /** @type {HTMLElement[]} */ const rows = [...this.root.querySelectorAll("[data-box]")];
    const boxes = rows.map((row) => Number(row.dataset.box));
    const at = boxes.indexOf(stop);
    const open = view.placement.composed.has(stop);
    const to = (index) => boxes[index] !== undefined && this.#rove(boxes[index], true);
    /** @type {Record<string, () => unknown>} */
    const acts = {
      ArrowDown: () => to(at + 1),
      ArrowUp: () => to(at - 1),
      Home: () => to(0),
      End: () => to(boxes.length - 1),
      ArrowRight: () => (open ? to(at + 1) : view.opening.toggle(stop, true)),
      ArrowLeft: () => (open ? view.opening.toggle(stop, false) : to(boxes.indexOf(view.trace.layout.boxes[stop].parent))),
      Enter: () => view.selection.visitBox(stop),
      " ": () => view.selection.visitBox(stop),
    };
    if (!acts[event.key] || at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  }
}
