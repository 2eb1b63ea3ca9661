// The source pane: the cell or file that recorded the program, next to its graph. A line and its nodes highlight each other; decisions appear under their line.

import { counted, grouped } from "../data/number_format.js";
import { foldedDecisions } from "../data/folded_decisions.js";
import { focused, hasFocus, html, put } from "../dom.js";
import { LINES } from "../scene/heat.js";
import { RovingTabindex } from "../controls/roving_tabindex.js";
import { keyAt, keyOf } from "../canvas/input.js";

/** Maximum number of lines on the page, of declined decisions under a line, and of decisions under the current line. */
const [LISTED, DECLINED, REMARKS] = [400, 2, 24];
/** Keys of the view that also work in this pane: steps, opening and closing. */
const KEYS = new Set([".", ",", "[", "]", "?", "/", "l", "s", "w", "F"]);

/** Source of the program next to one graph. */
export class SourcePane {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.lines = view.lines;
    /** the line under the pointer or with the focus, on either side */ this.pointed = -1;
    /** the line that was clicked last or that recorded the selected node */ this.chosen = -1;
    /** the selected node that the pane follows */ this.selected = -1;
    this.drawn = "";
    /** the line that was shown last */ this.shown = -1;
    /** @type {Map<HTMLElement, number[]>} remark on the page → its decisions */ this.remarks = new Map();
    /** @type {Map<number, import("../data/folded_decisions.js").FoldedDecisions[]>} line → its decisions */ this.folded = new Map();
    /** the first line on the page, −1 if there is none yet */ this.from = -1;
    /** @type {Map<number, string>} the slots that other parts highlight */ this.under = new Map();
    const leave = () => this.#point(-1);
    this.root = html("div", {
      class: "ex-listing", role: "region", "aria-label": "source", hidden: true,
      keydown: (event) => this.#key(event), click: (event) => this.#click(event),
      pointerover: (event) => this.#point(rowOf(event.target)), pointerleave: leave, focusin: (event) => this.#point(rowOf(event.target)), focusout: leave,
    });
    new RovingTabindex(this.root, "button", ["ArrowUp", "ArrowDown"]);
  }

  /** Whether the pane or its colours are turned on and there is a source to show. */
  get isShown() {
    return (Boolean(this.view.sizes.chosen.source) || this.view.heat.measure === LINES) && this.lines.isKnown;
  }

  /** Follow the pointer and the focus on the canvas. @param {HTMLElement} stage */
  watch(stage) {
    const at = (key) => this.isShown && this.#point(this.#lineAt(key), true);
    stage.addEventListener("pointerover", (event) => at(keyAt(this.view, event)));
    // In the low-detail view nodes have no elements that receive pointer events.
    stage.addEventListener("pointermove", (event) => this.view.lowDetail.covers && at(keyAt(this.view, event)));
    stage.addEventListener("focusin", (event) => at(keyOf(event.target)));
    stage.addEventListener("pointerleave", () => this.isShown && this.#point(-1));
  }

  /** Show the lines and mark the ones that recorded the selection. Nothing is created while the pane is hidden. */
  show() {
    put(this.root, "hidden", !this.isShown);
    if (!this.isShown) return;
    this.#follow();
    const drawn = `${this.chosen}|${this.from}`;
    if (drawn === this.drawn) return this.#mark();
    const isNew = this.shown !== this.chosen;
    [this.drawn, this.shown] = [drawn, this.chosen];
    const held = hasFocus(this.root) ? focused(this.root) : null;
    const mark = held && [held.getAttribute("data-line"), held.getAttribute("data-decision")];
    this.#draw(isNew);
    this.#mark();
    if (mark) this.#stop(mark[0], mark[1])?.focus({ preventScroll: true });
    if (isNew && this.chosen >= 0 && !held) this.#line(this.chosen)?.scrollIntoView({ block: "nearest" });
  }

  /** Go to the line of the selection. */
  #follow() {
    const { node } = this.view.selection;
    if (node === this.selected) return;
    this.selected = node;
    this.chosen = this.lines.of(node);
  }

  /** Return the slots to highlight on the canvas: the ones in `lit` and the ones that the current line recorded. @param {Map<number, string>} lit @returns {Map<number, string>} */
  lit(lit) {
    this.under = lit;
    if (!this.isShown) return lit;
    this.#follow();
    const row = this.pointed >= 0 ? this.pointed : this.chosen;
    if (row < 0) return lit;
    const both = new Map(lit);
    for (const slot of this.lines.slots(row)) if (!both.has(slot)) both.set(slot, "line");
    return both;
  }

  /** Focus the line of the selected node, else the first line that recorded something. */
  take() {
    (this.#line(this.chosen) ?? this.root.querySelector("button"))?.focus();
  }

  #draw(isNew) {
    const { lines } = this.lines;
    // Only lines around the wanted one are on the page, because a file may have 100,000.
    if (this.from < 0 || (isNew && this.chosen >= 0 && (this.chosen < this.from || this.chosen >= this.from + LISTED))) this.from = Math.max(0, Math.min(this.chosen - LISTED / 2, lines.length - LISTED));
    this.remarks.clear();
    const end = Math.min(lines.length, this.from + LISTED);
    const more = (rows, from, where) => rows > 0 && html("button", { type: "button", class: "ex-more", click: () => this.#turn(from) }, `${grouped(rows)} more above`.replace("above", where));
    const parts = [more(this.from, Math.max(0, this.from - LISTED), "above")];
    /** @type {{listing: import("../types").ListingTable, root: HTMLElement, last: number} | null} */ let list = null;
    for (const line of lines.slice(this.from, end)) {
      if (list?.listing !== line.listing) {
        list = { listing: line.listing, root: html("ol", { class: line.listing.lines.length ? "" : "ex-prose" }), last: 0 };
        parts.push(html("h5", { "aria-level": 2 }, line.listing.where), noteOf(line.listing), list.root);
      } else if (line.number > list.last + 1 && line.listing.unit === "line") list.root.append(html("li", { class: "ex-soft ex-gap", "aria-label": "lines left out" }, "⋯"));
      list.last = line.number;
      list.root.append(this.#item(line));
    }
    parts.push(more(lines.length - end, end, "below"));
    this.root.replaceChildren(...parts.filter((part) => part !== false));
  }

  /** Mark the remarks on the current decision. */
  #mark() {
    const { decision } = this.view.now;
    for (const [button, decisions] of this.remarks) put(button, "aria-current", decisions.includes(decision) && "step");
  }

  #turn(from) {
    this.from = from;
    this.drawn = "";
    this.show();
    this.root.scrollTop = 0;
    this.root.querySelector("button")?.focus();
  }

  #item(line) {
    const { row, number, text, nodes, hue, listing } = line;
    const parts = [html("span", { class: "ex-line-number" }, String(number)), html("code", {}, text || " ")];
    if (!nodes.length) return html("li", { class: "ex-quiet" }, html("div", { class: "ex-line" }, html("span", { class: "ex-hue" }), ...parts));
    const groups = this.#groups(line);
    const declined = groups.filter(({ verdict }) => verdict === "declined");
    const said = [counted(nodes.length, "node"), declined.length > 0 && `${grouped(declined.length)} declined`].filter(Boolean).join(", ");
    const isChosen = row === this.chosen;
    const attributes = { "data-line": row, "aria-label": `${listing.unit} ${number}: ${text.trim()}; ${said}`, title: `${said}: a click selects them, one after the other` };
    const button = html("button", { type: "button", class: "ex-line", ...attributes }, hueMark(hue), ...parts, html("span", { class: "ex-line-count" }, grouped(nodes.length)));
    put(button, "aria-current", isChosen && "true");
    const shown = isChosen ? groups.slice(0, REMARKS) : declined.slice(0, DECLINED);
    const rest = (isChosen ? groups : declined).length - shown.length;
    const remarks = shown.map((group) => this.#remark(group, row));
    if (rest > 0) remarks.push(html("li", { class: "ex-soft" }, `and ${grouped(rest)} more`));
    return html("li", { class: isChosen ? "ex-chosen" : "" }, button, remarks.length > 0 && html("ul", {}, ...remarks));
  }

  /** Return the decisions about a line, grouped by equal sentences. */
  #groups({ row, decisions }) {
    let groups = this.folded.get(row);
    if (!groups) this.folded.set(row, (groups = foldedDecisions(this.view.trace, decisions)));
    return groups;
  }

  /** Return a remark on a line for decisions with equal sentences. @param {import("../data/folded_decisions.js").FoldedDecisions} group @param {number} row */
  #remark({ decisions, verdict, isGeneral }, row) {
    const { trace, timeline } = this.view;
    const count = decisions.length > 1 ? ` ×${grouped(decisions.length)}` : "";
    const text = `${timeline.stages[trace.decisions[decisions[0]].stage]?.name ?? ""}: ${verdict}: ${isGeneral ? trace.generalSentence(decisions[0]) : trace.plainSentence(decisions[0])}${count}`;
    // Further clicks go to the next of these decisions.
    const click = () => this.view.go(timeline.afterDecision(decisions[(decisions.indexOf(this.view.now.decision) + 1) % decisions.length]));
    const button = html("button", { type: "button", class: "ex-remark", "data-line": row, "data-decision": decisions[0], title: text, click }, html("span", { class: `ex-mark ex-mark-${verdict}`, "aria-hidden": "true" }, verdict === "applied" ? "✓" : "✗"), html("span", {}, text));
    this.remarks.set(button, decisions);
    return html("li", {}, button);
  }

  /** @returns {HTMLElement | null} */
  #line(row) {
    return this.root.querySelector(`.ex-line[data-line="${row}"]`);
  }

  /** @returns {HTMLElement | null} */
  #stop(row, decision) {
    return (decision && this.root.querySelector(`[data-line="${row}"][data-decision="${decision}"]`)) || this.#line(row);
  }

  #lineAt(key) {
    return key[0] === "n" ? this.lines.of(this.view.scene?.slots.get(Number(key.slice(1)))?.node ?? -1) : -1;
  }

  /** Highlight a line and the nodes that it recorded, in the pane and on the canvas. @param {number} row @param {boolean} isFromCanvas whether to scroll the line into view */
  #point(row, isFromCanvas = false) {
    if (row === this.pointed) return;
    this.pointed = row;
    for (const line of this.root.querySelectorAll(".ex-pointed")) line.classList.remove("ex-pointed");
    const line = this.#line(row);
    line?.classList.add("ex-pointed");
    if (isFromCanvas) line?.scrollIntoView({ block: "nearest" });
    const { canvas, scene, lowDetail } = this.view;
    if (!scene) return;
    canvas.show(scene, { ...canvas.marks, lit: this.lit(this.under) });
    lowDetail.later();
  }

  /** Select the next of the nodes that a line recorded. */
  #click(event) {
    const line = event.target instanceof Element ? event.target.closest(".ex-line[data-line]") : null;
    if (!line) return;
    const { selection } = this.view;
    this.chosen = Number(line.getAttribute("data-line"));
    const { nodes } = this.lines.lines[this.chosen];
    const node = nodes[(nodes.indexOf(selection.node) + 1) % nodes.length];
    this.selected = node;
    selection.visit(node);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.view.focus.take();
    } else if (event.key.length === 1 && !KEYS.has(event.key)) event.stopPropagation();
  }
}

/** Return the line that an event target belongs to, −1 for none. @param {EventTarget | null} target */
function rowOf(target) {
  return target instanceof Element ? Number(target.closest("[data-line]")?.getAttribute("data-line") ?? -1) : -1;
}

/** Return a chip in the colour of a line. @param {number} hue */
function hueMark(hue) {
  return html("span", { class: "ex-hue", "aria-hidden": "true", style: `--ex-hue:var(--ex-line-${hue})` });
}

/** Return a note if the file has no lines. @param {import("../types").ListingTable} listing */
function noteOf({ unit }) {
  return unit === "node" && html("p", { class: "ex-soft" }, "This file is binary and has no source lines: these are its nodes.");
}
