// Find nodes and decisions by words: name, operation, shape, dtype, scope, attribute, source, sentence.

import { html, say } from "./dom.js";
import { grouped } from "./reason.js";

const LISTED = 60;

/** A box of results under a text field; arrows walk, Enter goes there. */
export class Search {
  /** @param {import("./trace.js").Trace} trace @param {{visit: (node: number) => void, goDecision: (index: number) => void, onFound: (nodes: number[]) => void, onClose: () => void}} actions */
  constructor(trace, actions) {
    this.trace = trace;
    this.actions = actions;
    this.field = html("input", { type: "search", placeholder: "name, operation, shape, reason …", "aria-label": "search", input: () => this.#find() });
    this.results = html("ul", { class: "ex-results", "aria-label": "results" });
    this.summary = html("div", { class: "ex-soft", "aria-live": "polite" });
    this.root = html("div", { class: "ex-search", role: "search", hidden: true, keydown: (event) => this.#key(event) }, this.field, this.summary, this.results);
  }

  /** Open the field and put the cursor there. */
  open() {
    this.root.hidden = false;
    this.field.focus();
    this.field.select();
  }

  /** Close, and forget the matches. */
  close() {
    if (this.root.hidden) return;
    this.root.hidden = true;
    this.actions.onFound([]);
    this.actions.onClose();
  }

  #words(node) {
    const { nodes, recording } = this.trace;
    const attributes = Object.entries(nodes.attributes[node] ?? {}).flat();
    return [this.trace.label(node), recording.operations[nodes.operation[node]], this.trace.typeText(nodes.type[node]), ...this.trace.scopePath(node), this.trace.sourceText(node), ...attributes].join("\n").toLowerCase();
  }

  #find() {
    const words = this.field.value.toLowerCase().replaceAll("x", "×").split(/\s+/).filter(Boolean);
    const matches = (text) => words.every((word) => text.replaceAll("x", "×").includes(word));
    const nodes = [];
    const decisions = [];
    if (words.length) {
      for (let node = 0; node < this.trace.count; node++) if (this.trace.nodes.kind[node] !== "constant" && matches(this.#words(node))) nodes.push(node);
      this.trace.decisions.forEach((decision, index) => {
        const said = this.trace.sentence(index).map(({ text }) => text).join("");
        if (matches(`${decision.link}\n${decision.code}\n${decision.verdict}\n${said}`.toLowerCase())) decisions.push(index);
      });
    }
    this.#list(nodes, decisions, words.length > 0);
    this.actions.onFound(nodes);
  }

  #list(nodes, decisions, asked) {
    const rows = nodes.slice(0, LISTED).map((node) => this.#row(this.trace.label(node), this.trace.typeText(this.trace.nodes.type[node]), () => this.actions.visit(node)));
    for (const index of decisions.slice(0, LISTED)) {
      const { link, verdict } = this.trace.decisions[index];
      const said = this.trace.sentence(index).map(({ text }) => text).join("");
      rows.push(this.#row(`${verdict === "applied" ? "✓" : "✗"} ${link}`, said, () => this.actions.goDecision(index)));
    }
    this.results.replaceChildren(...rows);
    const cut = nodes.length > LISTED || decisions.length > LISTED ? `, ${LISTED} of each shown` : "";
    say(this.summary, asked ? `${counted(nodes.length, "node")}, ${counted(decisions.length, "decision")}${cut}` : "");
  }

  #row(title, detail, go) {
    return html("li", {}, html("button", { type: "button", click: go }, html("b", {}, title), " ", html("span", { class: "ex-soft" }, detail)));
  }

  #key(event) {
    const buttons = [...this.results.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "Escape") this.close();
    else if (event.key === "ArrowDown") (buttons[at + 1] ?? buttons[0])?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? buttons[at - 1] : this.field).focus();
    else if (event.key === "Enter" && event.target === this.field) buttons[0]?.click();
    else return event.stopPropagation();
    event.preventDefault();
    event.stopPropagation();
  }
}

const counted = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
