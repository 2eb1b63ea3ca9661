// One decision in the panel: its sentence, its facts, and the rules declined before it; node names are links.

import { html, visible } from "../dom.js";
import { heading, LISTED, rest } from "./lists.js";
import { factFragments } from "../data/reasons.js";

const PRICES = new Set(["separate_us", "together_us"]);
/** export/text.py has the same text. */
const NOT_RUN = 'the members were not run one by one: plan.compare(EvalPlan(without=["batch"])) of the same expressions, run too, measures both';

/** Shows decisions. */
export class DecisionCard {
  /** @param {import("../data/recording.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("./why_panel.js").Actions} actions */
  constructor(trace, timeline, actions) {
    Object.assign(this, { trace, timeline, actions });
  }

  /** A link with a node's name that selects the node. */
  link(node, text = this.trace.label(node)) {
    return html("button", { class: "ex-link", type: "button", "data-node": node, click: () => this.actions.select(node) }, text);
  }

  /** The sentence of a decision: its nodes as links, and names between backticks as code. */
  sentence(index) {
    let quoted = false;
    return this.trace.sentence(index).flatMap(({ text, node }) => {
      if (node >= 0) return [this.link(node, text)];
      return text.split("`").flatMap((part, place) => {
        if (place) quoted = !quoted;
        return part && [quoted ? html("code", {}, part) : part];
      });
    });
  }

  card(index) {
    const decision = this.trace.decisions[index];
    const applied = decision.verdict === "applied";
    const title = html("b", {}, `${applied ? "✓" : "✗"} ${visible(decision.rule)}`);
    const where = html("code", { class: "ex-where" }, visible([decision.code, decision.location].filter(Boolean).join(" · ")));
    const head = html("div", { class: "ex-card-head" }, title, html("span", { class: "ex-soft" }, applied ? "applied" : "declined"));
    return html("div", { class: `ex-card ex-card-${decision.verdict}`, "data-code": decision.code }, head, html("div", {}, ...this.sentence(index)), this.explanation(decision), where);
  }

  /** What a decision means and what would change it, folded; recordings hold that once for all decisions alike. */
  explanation({ code, reason }) {
    const found = (this.trace.recording.explanations ?? []).find((each) => each.code === code && each.reason === reason);
    if (!found) return false;
    const page = found.anchor && html("div", { class: "ex-soft" }, "more: ", html("code", {}, visible(`assets/reasons.md#${found.anchor}`)));
    return html("details", { class: "ex-explained" }, html("summary", {}, "what it means, what would change it"), html("p", {}, visible(found.meaning)), html("p", {}, html("b", {}, "To change it: "), visible(found.change)), page);
  }

  /** The facts of a decision; estimates of a batch that ran are marked as such. */
  facts(index) {
    const { facts } = this.trace.decisions[index];
    const table = html("dl", { class: "ex-facts" });
    const ran = facts.measured_us !== undefined;
    for (const [name, value] of Object.entries(facts)) {
      const said = factFragments(name, value, this.trace.label).map(({ text, node }) => (node >= 0 ? this.link(node, text) : visible(text)));
      table.append(html("dt", {}, visible(name.replace(/_(bytes|us|flops)$/, "").replaceAll("_", " ")), ran && PRICES.has(name) && ", estimated"), html("dd", {}, ...said));
    }
    return table;
  }

  /** The note on decisions of batches that ran. @param {...number} indices */
  note(...indices) {
    const ran = indices.some((index) => this.trace.decisions[index].facts.measured_us !== undefined);
    return ran && html("div", { class: "ex-soft" }, NOT_RUN);
  }

  /** The declined decisions before a decision, in its stage, that concern the same nodes. */
  before(index) {
    const { decisions } = this.trace;
    const { subjects, stage } = decisions[index];
    const same = new Set(subjects);
    const found = [];
    for (let other = this.trace.recording.stages[stage].first; other < index; other++) {
      if (decisions[other].verdict === "declined" && decisions[other].subjects.some((node) => same.has(node))) found.push(other);
    }
    return found;
  }

  alsoTried(index) {
    const before = this.before(index);
    if (!before.length) return [];
    return [heading("Rules tried before, in order"), ...this.declined(before)];
  }

  declined(indices) {
    const cards = indices.slice(0, LISTED).map((other) => {
      const { rule, code, location } = this.trace.decisions[other];
      const jump = html("button", { class: "ex-link ex-strong", type: "button", title: visible(location), click: () => this.actions.go(this.timeline.afterDecision(other)) }, `✗ ${visible(rule)}`);
      return html("li", { class: "ex-card ex-card-declined", "data-code": code }, jump, " ", ...this.sentence(other));
    });
    return [html("ol", { class: "ex-cards" }, ...cards), rest(indices.length)];
  }
}
