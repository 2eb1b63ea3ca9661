// A decision in the panel: its sentence, its facts and the rules declined before it. Node names are links.

import { microsText } from "../data/number_format.js";
import { html, tied } from "../dom.js";
import { explained } from "./term_tooltips.js";
import { LISTED, rest } from "./elements.js";

/** Drawing of decisions. */
export class DecisionCard {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("./panel_parts.js").Actions} actions @param {import("./elements.js").KeptParts} kept */
  constructor(trace, timeline, actions, kept) {
    this.kept = kept;
    this.trace = trace;
    this.timeline = timeline;
    this.actions = actions;
  }

  /** Make a link that selects a node. */
  link(node, text = this.trace.namedLabel(node)) {
    return html("button", { class: "ex-link", type: "button", "data-node": node, click: () => this.actions.select(node) }, text);
  }

  /** Convert fragments to elements: nodes become links, names become code. Titles come from the user, so their words are not explained as terms. @param {import("../data/trace.js").Fragment[]} fragments @returns {(Node | string)[]} */
  words(fragments) {
    const known = new Set();
    return tied(fragments.flatMap(({ text, node, isCode, isTitle }) => (node >= 0 ? [this.link(node, text)] : isTitle ? [text] : isCode ? [html("code", {}, text)] : explained(text, known))));
  }

  /** Return the sentence of a decision as elements. @param {number} index */
  sentence(index) {
    return this.words(this.trace.sentence(index));
  }

  card(index) {
    const decision = this.trace.decisions[index];
    const applied = decision.verdict === "applied";
    const title = html("b", {}, ...explained(`${applied ? "✓" : "✗"} ${decision.rule}`));
    const [numerics] = (this.trace.recording.explanations[this.trace.recording.reasons[decision.reason].explanation]?.numerics ?? "").split(":");
    const where = html("code", { class: "ex-where" }, [decision.code, applied && numerics, decision.location].filter(Boolean).join(" · "));
    const head = html("div", { class: "ex-card-head" }, title, html("span", { class: "ex-soft" }, applied ? "applied" : "declined"));
    return html("div", { class: `ex-card ex-card-${decision.verdict}`, "data-code": decision.code }, head, html("div", {}, ...this.sentence(index)), this.explanation(decision), this.author(index), where);
  }

  /** Return who states a decision, false for Explorer's own planner. @param {number} index */
  author(index) {
    const author = this.trace.recording.authors?.[index];
    return author !== undefined && this.kept.part(`author|${author}`, () => html("div", { class: "ex-soft" }, "stated by ", author));
  }

  /** Return the meaning of a decision and how to change it, collapsed. Recordings store this once for each reason. */
  explanation({ reason, verdict }) {
    const { reasons, explanations } = this.trace.recording;
    const explanation = explanations[reasons[reason].explanation];
    if (!explanation) return false;
    return this.kept.part(`explanation|${reasons[reason].explanation}`, () => this.#explanation(explanation, verdict === "applied"));
  }

  #explanation(explanation, applied) {
    const page = explanation.anchor && html("div", { class: "ex-soft" }, "more: ", html("code", {}, `assets/reasons.md#${explanation.anchor}`));
    const change = explanation.change && html("p", {}, html("b", {}, "To change it: "), ...explained(explanation.change));
    const title = change ? "what it means, what would change it" : "what it means";
    const numbers = applied && explanation.numerics && html("p", {}, html("b", {}, "Numbers: "), explanation.numerics);
    return html("details", { class: "ex-explained" }, html("summary", {}, title), html("p", {}, ...explained(explanation.meaning)), numbers, change, page);
  }

  /** Return the facts of a decision. */
  facts(index) {
    /** @type {[string, string, (() => (Node | string)[])?][]} */ const rows = [];
    const { cost } = this.trace.decisions[index];
    const edges = this.trace.declinedEdges(index, index + 1);
    for (const [label, value] of Object.entries(this.trace.decisions[index].facts)) {
      const end = edges.length === 1 ? edges[0].find((node) => this.#names(node, value)) : undefined;
      rows.push([label, `${end}|${JSON.stringify(value)}`, () => (end === undefined ? this.words(this.trace.fact(value)) : [this.link(end, String(value))])]);
    }
    if (cost > 0) rows.push(["cost of declining, estimated", microsText(cost)]);
    for (const [place, [operand, reader]] of edges.slice(0, LISTED).entries()) {
      const mark = () => html("span", { class: "ex-mark-declined", "aria-label": "not fused with" }, " ✗→ ");
      rows.push([place ? "" : "not fused", `${operand} to ${reader}`, () => [this.link(operand), mark(), this.link(reader)]]);
    }
    return this.kept.facts(rows);
  }

  /** Whether a fact is the name of the node's operation. */
  #names(node, fact) {
    const { nodes, recording } = this.trace;
    return typeof fact === "string" && [this.trace.label(node), recording.operations[nodes.operation[node]]].includes(fact);
  }

  /** Return the notes below the facts of some decisions without duplicates. @param {...number} indices */
  note(...indices) {
    const { decisions, recording } = this.trace;
    const notes = new Set(indices.map((index) => recording.reasons[decisions[index].reason].note).filter(Boolean));
    return notes.size > 0 && this.kept.part(`note|${[...notes].join("|")}`, () => html("div", { class: "ex-soft" }, ...[...notes].flatMap((note) => explained(note))));
  }

  /** Return the cards of the rules declined before a decision. */
  before(index) {
    return this.trace.decisions[index].before;
  }

  alsoTried(index) {
    const before = this.before(index);
    if (!before.length) return [];
    return [this.kept.heading("Rules tried before, in order"), ...this.declined(before)];
  }

  declined(indices) {
    const card = (other) => {
      const { rule, code, location } = this.trace.decisions[other];
      const jump = html("button", { class: "ex-link ex-strong", type: "button", title: location, click: () => this.actions.go(this.timeline.afterDecision(other)) }, `✗ ${rule}`);
      return html("li", { class: "ex-card ex-card-declined", "data-code": code }, jump, " ", ...this.sentence(other));
    };
    const cards = indices.slice(0, LISTED).map((other) => this.kept.part(`declined|${other}`, () => card(other)));
    return [this.kept.filled("cards", () => html("ol", { class: "ex-cards" }), cards), rest(indices.length)];
  }
}
