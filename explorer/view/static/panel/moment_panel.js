// The panel of a moment, shown if nothing is selected: a decision, a picked or running kernel, or the numbers of a stage.

import { costTable, insideTable } from "./cost_table.js";
import { heading } from "./elements.js";
import { statedParts } from "./layer_operator.js";
import { slowestKernels } from "./slowest_kernels.js";
import { explained } from "./term_tooltips.js";
import { valueView } from "./value_summary.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";

const NODES = "Nodes are the operations, and the values that these read: inputs, weights and numbers.";

/** Panel content for the current moment. */
export class MomentPanel {
  /** @param {import("./panel_parts.js").PanelParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  content() {
    const { trace, timeline, moment, kept } = this.parts;
    const stage = timeline.stages[moment.stage];
    if (!stage) return [html("h4", { "aria-level": 2 }, "nothing recorded")];
    if (moment.decision >= 0) return this.#decision(stage, trace.decisions[moment.decision]);
    const recorded = stage.kind === "record";
    // A title comes from the user, so its words are not explained as terms.
    const title = (recorded && [trace.recording.title].filter(Boolean)) || [];
    // The sentence above the canvas shows the result of a whole stage, or else its purpose, which is not repeated here.
    const isSaid = moment.kernel < 0 && !stage.result;
    const name = kept.part(`stage|${moment.stage}`, () => html("h4", { "aria-level": 2 }, ...(title.length ? title : explained(stage.name.replaceAll("_", " ")))));
    const parts = [name, !isSaid && this.#purpose(stage.purpose)];
    if (recorded) parts.push(this.parts.summary.table((node, text) => this.parts.link(node, text), (kind, isType) => this.parts.actions.find(kind, isType)));
    if (moment.kernel >= 0) return [...parts, ...this.#picked(moment.kernel)];
    const coded = Object.keys(trace.recording.codes ?? {});
    if (moment.phase === "format" && coded.length === 1) parts.push(...this.parts.code(Number(coded[0]), -1));
    const costs = this.parts.totals.at(moment.position);
    // The times belong to the kernels of the final plan.
    const isPlanned = moment.phase !== "record" && moment.phase !== "rewrite";
    const isTimed = isPlanned || this.parts.totals.clock === "measured";
    const inside = insideTable(trace, costs, 0, this.parts.totals, this.parts.actions.box, (inner) => this.parts.summary.result(inner), isTimed);
    const elsewhere = ["nodes", "operations", "flops", "written", ...(isPlanned ? [] : ["measured time", "estimated time", "once, before the first run"])];
    const whole = [heading("the whole graph"), costTable(this.parts.totals, costs[0], costs[0], elsewhere), inside, ...(recorded && trace.recording.metadata ? statedParts(trace.recording.metadata) : [])];
    const numbers = [heading("in numbers"), this.#counts(stage), recorded && html("div", { class: "ex-soft" }, NODES), this.#plan()];
    if (moment.phase === "run" || (moment.phase === "order" && !trace.steps.length)) numbers.unshift(...slowestKernels(trace, this.parts.totals.clock, (kernel) => this.#visit(kernel)));
    // The memory stage is about the values that occupy the memory.
    if (moment.phase === "memory" || (moment.phase === "run" && !this.parts.bufferLanes.isPlanned)) numbers.push(...this.parts.peak());
    const decisions = this.parts.decisions.show(moment);
    // What a rewriting stage did is in its decisions, and the costs of the whole graph hardly change.
    if (stage.kind === "rewrite") return [...parts, ...numbers, decisions, ...whole, this.parts.values()];
    parts.push(...(recorded ? [...whole, ...numbers] : [...numbers, ...whole]), this.parts.values());
    if (moment.phase === "memory" || moment.phase === "run") parts.push(...this.parts.memory(-1));
    return [...parts, decisions];
  }

  /** Return a decision's rule, facts and nodes, and the list that contains it. */
  #decision(stage, decision) {
    const { trace, moment, decisionCard, kept } = this.parts;
    const [title, where] = [`${decision.verdict === "applied" ? "✓" : "✗"} ${decision.rule}`, [decision.code, decision.location].filter(Boolean).join(" · ")];
    return [
      kept.part(`title|${title}`, () => html("h4", { "aria-level": 2, class: `ex-mark-${decision.verdict}` }, ...explained(title))),
      this.#purpose(stage.purpose || stage.name),
      kept.part(`where|${where}`, () => html("code", { class: "ex-where", "data-code": decision.code }, where)),
      decisionCard.author(moment.decision),
      decisionCard.explanation(decision),
      decisionCard.facts(moment.decision),
      decisionCard.note(moment.decision),
      ...decisionCard.alsoTried(moment.decision),
      ...(moment.phase === "format" ? this.parts.code(trace.kernelOf[decision.subjects[0]] ?? -1, -1) : []),
      ...this.#subjects(decision),
      ...(moment.phase === "memory" ? this.parts.memory(-1) : []),
      this.parts.decisions.show(moment),
      this.#plan(),
    ];
  }

  /** Go to a kernel and select its result. @param {number} kernel */
  #visit(kernel) {
    const { trace, actions } = this.parts;
    actions.kernel(kernel);
    actions.select(trace.kernels[kernel].nodes.at(-1));
  }

  #purpose(text) {
    return this.parts.kept.part(`purpose|${text}`, () => html("div", { class: "ex-sub" }, ...explained(text)));
  }

  #picked(index) {
    const { trace } = this.parts;
    const kernel = trace.kernels[index];
    const result = kernel.nodes.at(-1);
    const nodes = [this.parts.kept.heading("computes"), this.parts.list(kernel.nodes), ...(this.parts.isCodeFirst ? this.parts.code(index, -1) : [])];
    if (this.parts.moment.phase === "order") {
      nodes.push(...this.#alternatives(kernel));
      if (this.parts.bufferLanes.lives.length) nodes.push(...this.parts.living(index, "live while it runs", kernel.live));
    }
    if (this.parts.moment.phase === "run") {
      nodes.push(this.parts.values(), ...this.parts.memory(index));
      if (trace.values[result]) nodes.push(this.parts.kept.heading("the result"), valueView(trace.values[result]));
    }
    return [...nodes, ...this.parts.kernel(result), ...(kernel.frees.length ? [this.parts.kept.heading("frees"), this.parts.list(kernel.frees)] : [])];
  }

  /** Return the other kernels that were ready when this one was picked, and the kernels whose operands were being computed. */
  #alternatives(kernel) {
    const result = kernel.nodes.at(-1);
    const others = kernel.ready_candidates.filter((node) => node !== result);
    const parts = others.length ? [this.parts.kept.heading(`could have been picked instead (${grouped(kernel.ready_count - 1)})`), this.parts.list(others)] : [];
    if (kernel.waiting_count) parts.push(this.parts.kept.heading(`waiting for running kernels (${grouped(kernel.waiting_count)})`), this.parts.list(kernel.waiting));
    return parts;
  }

  #subjects(decision) {
    const parts = [];
    if (decision.subjects.length) parts.push(this.parts.kept.heading("concerns"), this.parts.list(decision.subjects, (node) => this.parts.trace.sourceText(node)));
    if (decision.produced.length) parts.push(this.parts.kept.heading("created"), this.parts.list(decision.produced));
    return parts;
  }

  #counts(stage) {
    const table = html("dl", { class: "ex-facts" });
    const known = new Set();
    const before = new Map(this.parts.timeline.stages[this.parts.moment.stage - 1]?.counts ?? []);
    for (const [name, text] of stage.counts) {
      const earlier = before.get(name) ?? text;
      table.append(html("dt", {}, ...explained(name, known)), html("dd", {}, earlier === text ? text : `${earlier} → ${text}`));
    }
    return table;
  }

  /** Return a line with the plan's options. */
  #plan() {
    const options = Object.entries(this.parts.trace.recording.options).filter(([, value]) => !Array.isArray(value) || value.length);
    if (!options.length) return false;
    const said = () => options.flatMap(([name, value]) => [" · ", name, " ", html("code", {}, typeof value === "string" ? value : JSON.stringify(value))]);
    return this.parts.kept.part("plan", () => html("div", { class: "ex-note ex-plan" }, html("b", {}, "plan"), ...said()));
  }
}
