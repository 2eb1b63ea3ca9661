// The why panel: facts about a node, a box or a decision, the decisions about it, the declined rules, and its cost.

import { costTable, insideTable } from "./cost_table.js";
import { Decisions } from "./decision_list.js";
import { html } from "../dom.js";
import { BufferTimeline } from "./buffer_timeline.js";
import { layerOf, layerParts } from "./layer.js";
import { heading, LISTED, nodeList, rest } from "./lists.js";
import { bytesText, countText, grouped, microsText } from "../data/number_format.js";
import { badText, bufferText } from "../scene/scene.js";
import { Summary } from "./program_summary.js";
import { GradientLinks } from "../scene/gradient_links.js";
import { valueView } from "./value.js";
import { DecisionCard } from "./decision_card.js";

/**
 * @typedef {{select: (node: number) => void, go: (step: number) => void, visit: (node: number) => void, box: (box: number) => void,
 *   toggle: (box: number) => void, kind: (node: number) => void, kernel: (kernel: number) => void, firstNaN: () => void, told: (node: number) => string[]}} Actions told: what was changed about a node
 */

/** Fills the panel for the selected node, or for the current moment if nothing is selected. */
export class Panel {
  /** @param {import("../data/recording.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("../scene/scene.js").SceneBuilder} sceneBuilder @param {import("../data/totals.js").Totals} totals @param {Actions} actions */
  constructor(trace, timeline, sceneBuilder, totals, actions) {
    Object.assign(this, { trace, timeline, sceneBuilder, totals, actions });
    this.bufferTimeline = new BufferTimeline(trace);
    this.gradientLinks = new GradientLinks(trace);
    this.summary = new Summary(trace, totals);
    this.decisionCard = new DecisionCard(trace, timeline, actions);
    this.decisions = new Decisions(trace, timeline, (step) => actions.go(step));
    this.scrolled = false;
    this.root = html("aside", { class: "ex-why", tabindex: -1, "aria-label": "why", scroll: () => (this.scrolled = true) });
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {number} selected a node, −1 for none @param {number} box the same */
  show(moment, selected, box) {
    this.moment = moment;
    this.selected = selected;
    const parts = selected >= 0 ? this.#node(selected) : box >= 0 ? this.#box(box) : this.#moment();
    const typing = this.decisions.root.contains(document.activeElement) && document.activeElement;
    this.root.replaceChildren(...parts.filter(Boolean));
    if (typing && typing.isConnected) typing.focus({ preventScroll: true });
    if (this.scrolled) this.root.scrollTop = 0;
    this.scrolled = false;
  }

  /** A node's name that selects it. */
  link(node, text) {
    return this.decisionCard.link(node, text);
  }

  #node(node) {
    const { trace, moment } = this;
    const { type } = trace.nodes;
    const parts = [html("h4", {}, trace.label(node)), this.#origin(node, trace.typeText(type[node])), this.#kind(node)];
    if (!trace.exists(node, moment.position)) parts.push(this.#absent(node));
    const told = this.actions.changes(node);
    if (told.length) parts.splice(1, 0, html("ul", { class: "ex-told", "aria-label": "changed" }, ...told.map((words) => html("li", {}, words))));
    const decisions = trace.decisionsOf(node);
    const main = this.#main(decisions);
    if (main !== undefined) parts.push(this.decisionCard.card(main), this.decisionCard.facts(main), this.decisionCard.note(main), ...this.decisionCard.alsoTried(main));
    const shown = new Set([main, ...(main === undefined ? [] : this.decisionCard.before(main))]);
    const declined = decisions.filter((index) => !shown.has(index) && index < this.#reached && trace.decisions[index].verdict === "declined");
    if (declined.length) parts.push(heading("Rewrites that were declined"), ...this.decisionCard.declined(declined));
    for (const index of declined) shown.add(index);
    parts.push(...this.#others(decisions.filter((index) => !shown.has(index))));
    parts.push(...this.#twins(node, -1), ...this.#duplicates(node), ...this.#neighbours(node), ...this.#kernel(node), ...layerParts(trace, layerOf(trace, node)));
    const value = trace.values[node];
    if (value) parts.push(heading(moment.phase === "run" ? "value" : "value in the run"), valueView(value));
    if (moment.phase === "run" || moment.phase === "memory") parts.push(...this.#memory(moment.kernel));
    return parts;
  }

  /** Decisions below this number are shown in full: those taken, and all of the current stage. */
  get #reached() {
    return Math.max(this.moment.position, this.timeline.stages[this.moment.stage]?.last ?? 0);
  }

  /** The most important decision about a node: the current one, else one of this stage, else one of an earlier pass. */
  #main(decisions) {
    const { decisions: all, recording } = this.trace;
    if (decisions.includes(this.moment.decision)) return this.moment.decision;
    const { first = 0 } = this.timeline.stages[this.moment.stage] ?? {};
    const told = decisions.filter((index) => index < this.#reached);
    const here = told.filter((index) => index >= first);
    // Nearly every node has memory decisions, so decisions of passes are more interesting.
    const passed = told.filter((index) => recording.stages[all[index].stage].kind === "rewrite");
    const among = here.length ? here : passed.length ? passed : told;
    return among.findLast((index) => all[index].verdict === "applied") ?? among.at(-1);
  }

  /** A button "all 20 conv2d" that searches for them. */
  #kind(node) {
    const { trace, moment } = this;
    const { operation, kind } = trace.nodes;
    if (kind[node] !== "operation" && kind[node] !== "call") return false;
    const count = operation.filter((other, index) => other === operation[node] && trace.exists(index, moment.position)).length;
    if (count < 2) return false;
    return html("div", { class: "ex-note" }, html("button", { class: "ex-link", type: "button", click: () => this.actions.kind(node) }, `all ${grouped(count)} ${this.trace.recording.operations[operation[node]]}`));
  }

  #box(index) {
    const { trace, totals, moment, actions } = this;
    const box = trace.layout.boxes[index];
    const costs = totals.at(moment.position);
    const outer = this.#outermost(index);
    const detail = [box.type || KINDS[box.kind] || box.kind, box.count > 1 && `×${grouped(box.count)}`].filter(Boolean).join(" · ");
    const parts = [html("h4", {}, box.label), html("div", { class: "ex-sub" }, detail)];
    const nodes = box.items.flatMap((item) => (item.slot === undefined ? [] : trace.layout.slots[item.slot].nodes));
    const standing = nodes.filter((node) => trace.exists(node, moment.position));
    parts.push(...box.batches.flatMap((made) => [this.decisionCard.card(made), this.decisionCard.facts(made)]), this.decisionCard.note(...box.batches));
    parts.push(...layerParts(trace, box.layer), ...this.#twins(-1, index));
    if (trace.isOperator(index)) parts.push(this.#source(nodes.find((node) => trace.nodes.source[node] >= 0) ?? nodes[0]));
    parts.push(heading("costs"), costTable(totals, costs[index], costs[outer]), insideTable(trace, costs, index, totals, actions.box, (inner) => this.summary.result(inner)));
    if (standing.length) parts.push(heading("contains"), this.#list(standing));
    return parts;
  }

  #twins(node, box) {
    return this.gradientLinks.tell(node, box, (each) => this.link(each), this.moment.position);
  }

  #outermost(box) {
    const { boxes } = this.trace.layout;
    while (boxes[box].parent >= 0) box = boxes[box].parent;
    return box;
  }

  #origin(node, type) {
    const { trace } = this;
    const place = html("div", { class: "ex-sub" }, type);
    const scope = trace.scopePath(node);
    if (scope.length) place.append(" · scope ", html("code", {}, scope.join(" / ")));
    for (const [name, value] of Object.entries(trace.nodes.attributes[node] ?? {})) {
      place.append(" · ", name, " ", html("code", {}, value));
    }
    return html("div", {}, place, this.#source(node));
  }

  /** The line that recorded a node: the user's, or the file's own. */
  #source(node) {
    const source = this.trace.recording.sources[this.trace.nodes.source[node]];
    return source !== undefined && html("div", { class: "ex-source" }, html("span", {}, this.trace.sourceText(node)), html("code", {}, source.text.trim()));
  }

  #absent(node) {
    const { born } = this.trace.nodes;
    const later = born[node] >= this.moment.position;
    const go = html("button", { class: "ex-link", type: "button", click: () => this.actions.visit(node) }, later ? "Go to the step that creates it" : "Go to the step that removed it");
    return html("div", { class: "ex-note" }, later ? "Does not exist yet at this step · " : "Removed at this step · ", go);
  }

  #moment() {
    const { trace, timeline, moment } = this;
    const stage = timeline.stages[moment.stage];
    if (!stage) return [html("h4", {}, "nothing recorded")];
    if (moment.decision >= 0) {
      const decision = trace.decisions[moment.decision];
      return [
        html("h4", { class: `ex-mark-${decision.verdict}` }, `${decision.verdict === "applied" ? "✓" : "✗"} ${decision.rule}`),
        html("div", { class: "ex-sub" }, stage.purpose || stage.name),
        html("code", { class: "ex-where", "data-code": decision.code }, [decision.code, decision.location].filter(Boolean).join(" · ")),
        this.decisionCard.explanation(decision),
        this.decisionCard.facts(moment.decision),
        this.decisionCard.note(moment.decision),
        ...this.decisionCard.alsoTried(moment.decision),
        ...this.#subjects(decision),
        ...(moment.phase === "memory" ? this.#memory(-1) : []),
        this.decisions.show(moment),
        this.#plan(),
      ];
    }
    const recorded = stage.kind === "record";
    const title = (recorded && trace.recording.title) || stage.name;
    const parts = [html("h4", {}, title), html("div", { class: "ex-sub" }, stage.purpose)];
    if (recorded) parts.push(this.summary.table((node) => this.link(node)));
    if (moment.kernel >= 0) return [...parts, ...this.#picked(moment.kernel)];
    const costs = this.totals.at(moment.position);
    const inside = insideTable(trace, costs, 0, this.totals, this.actions.box, (inner) => this.summary.result(inner));
    const whole = [heading("the whole graph"), costTable(this.totals, costs[0], costs[0], ["nodes", "operations", "flops", "written"]), inside];
    const numbers = [heading("in numbers"), this.#counts(stage), this.#plan()];
    parts.push(...(recorded ? [...whole, ...numbers] : [...numbers, ...whole]), this.#bad());
    if (moment.phase === "memory") parts.push(...this.#memory(-1));
    return [...parts, this.decisions.show(moment)];
  }

  /** The number of values with NaN or inf, and a button that goes to the first. */
  #bad() {
    const { trace } = this;
    const values = Object.values(trace.values);
    if (!values.length) return false;
    const bad = values.filter((value) => badText(value)).length;
    const first = trace.firstNaN >= 0 && html("button", { class: "ex-link ex-bad", type: "button", click: () => this.actions.firstNaN() }, "Go to the first NaN");
    return html("div", { class: "ex-note" }, bad ? html("b", { class: "ex-bad" }, `${grouped(bad)} of ${grouped(values.length)} values contain NaN or inf`) : `no NaN or inf in ${grouped(values.length)} values`, first && " · ", first);
  }

  /** The buffers over time, and the values that are live while a kernel runs (−1: no kernel). */
  #memory(kernel) {
    const { trace, bufferTimeline } = this;
    if (!bufferTimeline.lives.length) return [];
    const picture = bufferTimeline.picture(kernel, { go: this.actions.kernel, select: this.actions.select }, this.selected);
    if (kernel < 0) return [heading("buffers over time"), picture];
    const count = bufferTimeline.alive(kernel).length;
    return [heading(`live now: ${grouped(count)} ${count === 1 ? "value" : "values"}, ${bytesText(trace.live(kernel))}`), picture, bufferTimeline.table(kernel, (node) => this.link(node))];
  }

  #picked(index) {
    const { trace } = this;
    const kernel = trace.kernels[index];
    const result = kernel.nodes.at(-1);
    const nodes = [heading("computes"), this.#list(kernel.nodes)];
    if (this.moment.phase === "order") nodes.push(...this.#alternatives(kernel));
    if (this.moment.phase === "run") {
      nodes.push(this.#bad(), ...this.#memory(index));
      if (trace.values[result]) nodes.push(heading("the result"), valueView(trace.values[result]));
    }
    return [...nodes, ...this.#kernel(result), ...(kernel.frees.length ? [heading("frees"), this.#list(kernel.frees)] : [])];
  }

  /** The other kernels that were ready when this one was picked, and those whose operands were being computed. */
  #alternatives(kernel) {
    const result = kernel.nodes.at(-1);
    const others = kernel.ready_candidates.filter((node) => node !== result);
    const parts = others.length ? [heading(`could have been picked instead (${grouped(kernel.ready_count - 1)})`), this.#list(others)] : [];
    if (kernel.waiting_count) parts.push(heading(`waiting for running kernels (${grouped(kernel.waiting_count)})`), this.#list(kernel.waiting));
    return parts;
  }

  #others(indices) {
    const list = (title, found) => (found.length ? [heading(title), html("ol", { class: "ex-decisions" }, ...found.slice(0, LISTED).map((index) => this.decisions.row(index, this.moment))), rest(found.length)] : []);
    const told = indices.filter((index) => index < this.#reached);
    return [...list("other decisions about it", told), ...list("later decisions about it", indices.slice(told.length))];
  }

  #subjects(decision) {
    const parts = [];
    if (decision.subjects.length) parts.push(heading("concerns"), this.#list(decision.subjects, true));
    if (decision.produced.length) parts.push(heading("created"), this.#list(decision.produced));
    return parts;
  }

  #list(nodes, located = false) {
    const where = (node) => (located ? this.trace.sourceText(node) : "");
    return nodeList(nodes, (node) => `${this.trace.label(node)}\n${where(node)}`, (node) => html("li", {}, this.link(node), where(node) && html("span", { class: "ex-soft" }, ` ${where(node)}`)));
  }

  #counts(stage) {
    const table = html("dl", { class: "ex-facts" });
    const before = new Map(this.timeline.stages[this.moment.stage - 1]?.counts ?? []);
    for (const [name, text] of stage.counts) {
      const earlier = before.get(name) ?? text;
      table.append(html("dt", {}, name), html("dd", {}, earlier === text ? text : `${earlier} → ${text}`));
    }
    return table;
  }

  /** The options of the plan that are set, on one line. */
  #plan() {
    const options = Object.entries(this.trace.recording.options).filter(([, value]) => !Array.isArray(value) || value.length);
    if (!options.length) return false;
    const said = options.flatMap(([name, value]) => [" · ", name, " ", html("code", {}, typeof value === "string" ? value : JSON.stringify(value))]);
    return html("div", { class: "ex-note ex-plan" }, html("b", {}, "plan"), ...said);
  }

  #duplicates(node) {
    const found = this.sceneBuilder.duplicates(node, this.moment.position);
    return found.length ? [heading(`represents ${grouped(found.length + 1)} equal nodes`), this.#list(found, true)] : [];
  }

  #neighbours(node) {
    const { trace, moment } = this;
    const { operands, kind } = trace.nodes;
    const final = trace.resolver(moment.position);
    const reads = [...new Set(operands[node].map((operand) => final[operand]))].filter((operand) => kind[operand] !== "constant");
    const consumers = [];
    for (let other = 0; other < trace.count; other++) {
      if (trace.exists(other, moment.position) && operands[other].some((operand) => final[operand] === node)) consumers.push(other);
    }
    const parts = [];
    if (reads.length) parts.push(heading("reads"), this.#list(reads));
    if (consumers.length) parts.push(heading("read by"), this.#list(consumers));
    return parts;
  }

  #kernel(node) {
    const { trace } = this;
    const index = trace.kernelOf[node];
    if (index < 0) return [];
    const kernel = trace.kernels[index];
    const step = trace.steps[trace.stepOf.get(index)];
    const { nodes } = kernel;
    const members = nodes.slice(0, LISTED).flatMap((member, place) => [place ? " → " : "", member === node ? trace.label(member) : this.link(member)]);
    const rows = [
      ["fuses", nodes.length > 1 ? html("span", {}, ...members, nodes.length > LISTED && ` and ${grouped(nodes.length - LISTED)} more`) : "nothing: this operation alone"],
      ["number", `${grouped(index + 1)} of ${grouped(trace.kernels.length)}`],
      ["level, chain", `${kernel.level}, ${kernel.chain}`],
      ["memory", bufferText(kernel, trace.recording.schedule)],
      ["work", `${countText(kernel.flops)} flops`],
      ["estimated", microsText(kernel.estimate)],
      ["measured", step ? microsText(step.micros) + (trace.steps.some(({ thread }) => thread) ? `, begun at ${microsText(step.start)} on thread ${step.thread}` : "") : ""],
    ];
    const table = html("dl", { class: "ex-facts" });
    for (const [name, value] of rows) if (value) table.append(html("dt", {}, name), html("dd", {}, value));
    const isAhead = this.moment.phase === "record" || this.moment.phase === "rewrite";
    return [heading(isAhead ? "its kernel in the final plan" : "kernel"), table];
  }
}

/** Names of the kinds of boxes. */
const KINDS = { top: "the whole graph", body: "a function's body", file: "an operator of the file", batch: "a batch", chain: "a folded chain", repeat: "repeated blocks", stack: "equal parallel parts", block: "a repeated block", part: "a part" };
