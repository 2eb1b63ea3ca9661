// Search of operators, nodes and decisions by type, name, operation, shape, dtype, scope, source or sentence, with steps through the matches.

import { iconButton } from "./toolbar.js";
import { focused, hasFocus, html, put, say } from "../dom.js";
import { Query, fold, nodeEntry, ofOperation, ofType, operatorEntry, singleOperators } from "../data/search_query.js";
import { Compositions } from "../scene/compositions.js";
import { counted, grouped } from "../data/number_format.js";

const LISTED = 60;

/** @typedef {{box?: number, node: number}} Hit one result: an operator's box, or a node */
/** @typedef {{visit: (node: number) => void, visitBox: (box: number) => void, goDecision: (index: number) => void, onFound: (nodes: number[], hits: Hit[]) => void, onClose: () => void}} Actions */

/** Text field above its results. Enter and Shift Enter step through all results, arrow keys through the list. */
export class Search {
  /** @param {import("../data/trace.js").Trace} trace @param {Actions} actions */
  constructor(trace, actions) {
    this.trace = trace;
    this.actions = actions;
    /** @type {{box?: number, node: number, decision: number}[]} */ this.matches = [];
    this.at = -1;
    /** @type {any[] | undefined} the searched strings of each node */ this.entries = undefined;
    /** @type {Map<number, any> | undefined} box of an operator → its searched strings */ this.operators = undefined;
    /** @type {Map<number, any> | undefined} node of an operator without a box → its searched strings */ this.single = undefined;
    /** @type {string[] | undefined} */ this.sentences = undefined;
    this.field = html("input", { type: "search", placeholder: "type, name, operand, shape, dtype, reason …", click: () => this.#fold(false), title: 'also "type:Conv", "operation:conv2d", "shape:64×7×7", "dtype:float32", "name:…", "operand:…", "text:…", "found:gelu"', "aria-label": "search", input: () => this.#find() });
    this.results = html("ol", { class: "ex-results", "aria-label": "results" });
    this.summary = html("div", { class: "ex-soft", role: "status", "aria-live": "polite" });
    this.place = html("div", { class: "ex-place", "aria-live": "polite" });
    this.walkers = [iconButton("up", "previous result (Shift Enter, N)", () => this.walk(-1)), iconButton("down", "next result (Enter, n)", () => this.walk(1))];
    const close = iconButton("cross", "close the search (Esc)", () => this.close());
    const head = html("div", { class: "ex-search-head" }, this.field, this.place, ...this.walkers, close);
    this.root = html("div", { class: "ex-search", role: "search", hidden: true, keydown: (event) => this.#key(event) }, head, this.summary, this.results);
  }

  /** Open and focus the field, which still has the words of the last search. */
  open() {
    const isNew = this.root.hidden;
    this.#show(true);
    if (isNew && this.field.value) this.#find();
    this.field.focus();
    this.field.select();
  }

  /** Find every operator of a type in a file, or every node of an operation. @param {string} kind @param {boolean} isType */
  openKind(kind, isType) {
    this.#show(true);
    this.field.value = isType ? ofType(kind) : ofOperation(kind);
    this.#find();
    this.field.focus();
  }

  /** Find every node of an operation and go to one of them. @param {string} operation @param {number} node */
  openOperation(operation, node) {
    this.#show(true);
    this.field.value = ofOperation(operation);
    this.#find();
    this.#stand(this.matches.findIndex((match) => match.node === node));
    this.field.focus();
  }

  /** Show or hide the search; a drawer is hidden while it is shown. @param {boolean} isShown */
  #show(isShown) {
    this.root.hidden = !isShown;
    this.root.closest(".explorer-view")?.classList.toggle("ex-searching", isShown);
  }

  /** Hide the results in a narrow view, where they cover most of the canvas, or show them again. @param {boolean} isFolded */
  #fold(isFolded) {
    this.root.classList.toggle("ex-folded", isFolded);
  }

  /** Close the search and unmark the matches; `walk` still steps through them. */
  close() {
    if (this.root.hidden) return;
    this.#show(false);
    this.actions.onFound([], []);
    this.actions.onClose();
  }

  /** Go to the next result, or with −1 to the previous one, wrapping around; return false if there are none. @param {number} by */
  walk(by) {
    if (!this.matches.length) return false;
    const count = this.matches.length;
    this.#go(this.at < 0 ? (by > 0 ? 0 : count - 1) : (this.at + by + count) % count);
    return true;
  }

  #go(index) {
    const held = hasFocus(this.root) && focused(this.root);
    this.#fold(true);
    this.#stand(index);
    const { box, node, decision } = this.matches[index];
    if (box !== undefined) this.actions.visitBox(box);
    else if (node >= 0) this.actions.visit(node);
    else this.actions.goDecision(decision);
    if (held) (held.getClientRects().length ? held : this.field).focus({ preventScroll: true });
  }

  /** Mark a result as the current one. */
  #stand(index) {
    this.at = index;
    this.#list();
    const row = this.results.querySelector("[aria-current]");
    if (!row) return;
    const top = row.offsetTop - this.results.offsetTop;
    if (top < this.results.scrollTop || top + row.offsetHeight > this.results.scrollTop + this.results.clientHeight) this.results.scrollTop = top - 30;
  }

  #prepare() {
    const compositions = new Compositions(this.trace);
    this.operators ??= new Map(this.trace.layout.boxes.flatMap(({ type, kind }, box) => (type && kind === "file" ? [[box, operatorEntry(this.trace, box)]] : [])));
    this.single ??= singleOperators(this.trace);
    this.entries ??= Array.from({ length: this.trace.count }, (_, node) => (this.trace.nodes.kind[node] === "constant" ? null : nodeEntry(this.trace, node, compositions.names(node))));
    this.sentences ??= this.trace.decisions.map((decision, index) => fold(`${decision.rule}\n${decision.code}\n${decision.verdict}\n${this.trace.plainSentence(index)}`));
  }

  #find() {
    const query = new Query(this.field.value);
    const [nodes, decisions] = [[], []];
    /** @type {{box?: number, node: number, decision: number, entry: any, first: number}[]} */ const operators = [];
    const inside = new Set();
    if (!query.isEmpty) {
      this.#prepare();
      for (const [box, entry] of this.operators) {
        if (!query.matches(entry)) continue;
        const within = this.trace.nodesIn(box);
        for (const node of within) inside.add(node);
        operators.push({ box, node: -1, decision: -1, entry, first: within.reduce((least, node) => Math.min(least, node), Infinity) });
      }
      for (const [node, entry] of this.single) if (query.matches(entry)) inside.add(node), operators.push({ node, decision: -1, entry, first: node });
      // In the program's order, but the operator that writes a named operand comes before the operators that read it.
      operators.sort((one, other) => Number(query.isOfWriter(other.entry)) - Number(query.isOfWriter(one.entry)) || one.first - other.first);
      // Nodes of a found operator are not listed separately.
      this.entries.forEach((entry, node) => entry && !inside.has(node) && query.matches(entry) && nodes.push(node));
      this.sentences.forEach((text, index) => query.matchesText(text) && decisions.push(index));
    }
    this.matches = [...operators, ...nodes.map((node) => ({ node, decision: -1 })), ...decisions.map((decision) => ({ node: -1, decision }))];
    this.at = -1;
    this.#fold(false);
    say(this.summary, query.isEmpty ? "" : `${operators.length ? `${counted(operators.length, "operator")}, ` : ""}${counted(nodes.length, "node")}, ${counted(decisions.length, "decision")}`);
    this.#list();
    this.results.scrollTop = 0;
    this.actions.onFound([...inside, ...nodes], this.matches.slice(0, operators.length + nodes.length));
  }

  /** List as many results as fit, around the current one. */
  #list() {
    const from = Math.max(0, Math.min(this.at - LISTED / 2, this.matches.length - LISTED));
    this.results.replaceChildren(...this.matches.slice(from, from + LISTED).map((match, place) => this.#row(match, from + place)));
    say(this.place, this.matches.length ? `${this.at < 0 ? "–" : grouped(this.at + 1)} of ${grouped(this.matches.length)}` : "");
    for (const button of this.walkers) button.disabled = this.matches.length === 0;
  }

  /** @param {{box?: number, node: number, decision: number}} match @param {number} index */
  #row({ box, node, decision }, index) {
    const { trace } = this;
    const [title, detail] = box !== undefined ? this.#operator(box) : node >= 0 ? [trace.whereText(node), trace.typeText(trace.nodes.type[node])] : [`${trace.decisions[decision].verdict === "applied" ? "✓" : "✗"} ${trace.decisionPlace(decision) || trace.decisions[decision].rule}`, trace.plainSentence(decision)];
    const button = html("button", { type: "button", click: () => this.#go(index) }, html("b", {}, title), " ", html("span", { class: "ex-soft" }, detail));
    put(button, "aria-current", index === this.at && "true");
    return html("li", {}, button);
  }

  /** Return the path of an operator's box, and its type and result. @param {number} box @returns {[string, string]} */
  #operator(box) {
    const { label, text, type, operator } = this.trace.layout.boxes[box];
    const row = this.trace.recording.operators?.[operator];
    const path = row ? this.trace.pathOf(row.scope) : [label];
    const details = text.slice(1).flatMap((line) => line.split(" · ")).filter((part) => part !== type && part !== path.at(-1));
    return [path.join(" / "), [type, ...details].join(" · ")];
  }

  #key(event) {
    const buttons = [...this.results.querySelectorAll("button")];
    const at = buttons.indexOf(focused(this.root));
    if (["ArrowDown", "ArrowUp"].includes(event.key)) this.#fold(false);
    if (event.key === "Escape") this.close();
    else if (event.key === "ArrowDown") (buttons[at + 1] ?? buttons[0])?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? buttons[at - 1] : this.field).focus();
    else if (event.key === "Enter" && event.target === this.field) this.walk(event.shiftKey ? -1 : 1);
    else return event.stopPropagation();
    event.preventDefault();
    event.stopPropagation();
  }
}
