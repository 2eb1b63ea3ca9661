// The panel of a node: its type, source, decisions, neighbours, kernel and value.

import { layerOf, layerParts, operatorOf, operatorParts, typeParts } from "./layer_operator.js";
import { operandParts } from "./operand_rows.js";
import { facts, heading, LISTED, rest } from "./elements.js";
import { explained } from "./term_tooltips.js";
import { metricText, nodeValue } from "../data/totals.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";

/** Phases in which the value is shown before the decisions. */
const VALUED = new Set(["record", "run"]);

/** Maximum length of an attribute that shares a line with others. A longer one, such as the reason why an operator cannot run, has its own line. */
const SHORT = 30;

/** Panel content for a selected node. */
export class NodePanel {
  /** @param {import("./panel_parts.js").PanelParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  /** @param {number} node */
  content(node) {
    const { trace, moment, decisionCard } = this.parts;
    const { type } = trace.nodes;
    const parts = [html("h4", { "aria-level": 2 }, trace.namedLabel(node)), this.#origin(node, trace.typeText(type[node])), this.#sameOperation(node), this.parts.tracing(node)];
    // In other phases decisions come first, also before the operator of the file.
    if (VALUED.has(moment.phase)) parts.push(...this.parts.value(node));
    const row = operatorOf(trace, node);
    const operator = [...typeParts(trace, row, this.parts.kept), ...operandParts(this.parts, row), ...operatorParts(trace, row)];
    if (moment.phase === "record") parts.push(...operator);
    if (!trace.exists(node, moment.position)) parts.push(this.#absent(node));
    const code = this.parts.isCodeFirst ? this.parts.code(trace.kernelOf[node] < 0 ? (trace.codeOf.get(node) ?? -1) : trace.kernelOf[node], node) : [];
    // Values and decisions are the subject of the run, but not of the stage that generates code.
    if (moment.phase === "format") parts.splice(1, 0, ...code);
    parts.push(...this.parts.compositions.tell(node, this.parts));
    const changes = this.parts.actions.changes(node);
    if (changes.length) parts.splice(1, 0, html("ul", { class: "ex-told", "aria-label": "changed" }, ...changes.map((words) => html("li", {}, words))));
    const decisions = trace.decisionsOf(node);
    const main = this.#main(decisions);
    if (main !== undefined) parts.push(decisionCard.card(main), decisionCard.facts(main), decisionCard.note(main), ...decisionCard.alsoTried(main));
    if (moment.phase === "run") parts.push(...code);
    const shown = main === undefined ? [] : [main, ...decisionCard.before(main)];
    const declined = decisions.filter((index) => !shown.includes(index) && index < this.#reached && trace.decisions[index].verdict === "declined");
    if (declined.length) parts.push(heading("Rewrites that were declined"), ...decisionCard.declined(declined));
    parts.push(...this.#all(decisions, main));
    parts.push(...this.parts.gradients(node, -1), ...this.#duplicates(node), ...this.#neighbours(node), ...this.parts.kernel(node));
    parts.push(...this.#metrics(node));
    if (!VALUED.has(moment.phase)) parts.push(...this.parts.value(node));
    parts.push(...layerParts(trace, layerOf(trace, node)));
    if (moment.phase !== "record") parts.push(...operator);
    if (moment.phase === "run" || moment.phase === "memory") parts.push(...this.parts.memory(moment.kernel));
    return parts;
  }

  /** Number of decisions up to the end of the current stage, or the position if it is later; later decisions are listed separately. */
  get #reached() {
    return Math.max(this.parts.moment.position, this.parts.timeline.stages[this.parts.moment.stage]?.last ?? 0);
  }

  /** Return the most important decision about a node: the current one, else one of this stage, else one of an earlier pass. */
  #main(decisions) {
    const { decisions: all, recording } = this.parts.trace;
    if (decisions.includes(this.parts.moment.decision)) return this.parts.moment.decision;
    const { first = 0 } = this.parts.timeline.stages[this.parts.moment.stage] ?? {};
    const reached = decisions.filter((index) => index < this.#reached);
    const here = reached.filter((index) => index >= first);
    // Nearly every node has memory decisions, so decisions of passes are more interesting.
    const passed = reached.filter((index) => recording.stages[all[index].stage].kind === "rewrite");
    const among = here.length ? here : passed.length ? passed : reached;
    return among.findLast((index) => all[index].verdict === "applied") ?? among.at(-1);
  }

  /** Return a button "all 20 conv2d" that searches for these nodes. */
  #sameOperation(node) {
    const { trace, moment } = this.parts;
    const { operation, kind } = trace.nodes;
    if (kind[node] !== "operation" && kind[node] !== "call") return false;
    const count = operation.filter((other, index) => other === operation[node] && trace.exists(index, moment.position)).length;
    if (count < 2) return false;
    return html("div", { class: "ex-note" }, html("button", { class: "ex-link", type: "button", click: () => this.parts.actions.operation(node) }, `all ${grouped(count)} ${this.parts.trace.recording.operations[operation[node]]}`));
  }

  #origin(node, type) {
    const { trace } = this.parts;
    const place = html("div", { class: "ex-sub" }, type);
    const computed = trace.formula(node);
    const isRenamed = trace.operatorType(node) !== "" && trace.namedLabel(node) !== trace.label(node);
    if (isRenamed) place.append(" · recorded as ", html("code", {}, trace.label(node)));
    const scope = trace.scopePath(node);
    if (scope.length) place.append(" · scope ", html("code", {}, scope.join(" / ")));
    const attributes = Object.entries(trace.nodes.attributes[node] ?? {});
    for (const [name, value] of attributes) {
      if (value.length <= SHORT) place.append(" · ", name, " ", html("code", {}, value));
    }
    const sentences = attributes.filter(([, value]) => value.length > SHORT);
    const strides = this.#strides(node);
    if (strides.length) place.append(" · one block, strides ", html("code", {}, `(${strides.join(",\u00a0")})`), " elements");
    const declared = trace.recording.declared?.[node];
    return html("div", {}, computed && html("div", {}, html("code", {}, computed)), place, declared !== undefined && html("div", { class: "ex-sub" }, "declared as ", html("code", {}, declared)), ...sentences.map(([name, value]) => html("div", { class: "ex-sub" }, `${name}: ${value}`)), this.#outputs(node), this.parts.source(node), this.#namesakes(node));
  }

  /** Return the names of the model's outputs that a node computes. @param {number} node */
  #outputs(node) {
    const names = this.parts.trace.outputNames(node);
    const codes = names.flatMap((name, place) => [place ? ", " : "", html("code", {}, name)]);
    return names.length > 0 && html("div", { class: "ex-sub" }, names.length > 1 ? "outputs of the model: " : "output of the model: ", ...codes);
  }

  /** Return a note if several values were assigned to the node's variable. @param {number} node */
  #namesakes(node) {
    const name = this.parts.trace.variable(node);
    const count = name ? this.parts.trace.valuesOf(name) : 0;
    return count > 1 && html("div", { class: "ex-sub" }, `${grouped(count)} values were assigned to a variable `, html("code", {}, name), "; this is one of them");
  }

  /** Return the strides in elements of a tensor stored as one contiguous block in C order. */
  #strides(node) {
    const { trace } = this.parts;
    const { operation, type } = trace.nodes;
    if (trace.recording.operations[operation[node]] !== "tensor") return [];
    const { shape } = trace.recording.types[type[node]];
    return shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
  }

  /** Return its values of user-defined metrics. */
  #metrics(node) {
    /** @type {any[]} */ const rows = this.parts.totals.metrics.filter(({ values }) => values?.[node]).map((metric) => [metric.row || metric.name, metricText(metric, nodeValue(metric, node))]);
    return rows.length ? [heading("numbers"), facts(rows)] : [];
  }

  #absent(node) {
    const { born } = this.parts.trace.nodes;
    const later = born[node] >= this.parts.moment.position;
    const go = html("button", { class: "ex-link", type: "button", click: () => this.parts.actions.visit(node) }, later ? "Go to the step that creates it" : "Go to the step that removed it");
    return html("div", { class: "ex-note" }, later ? "Does not exist yet at this step · " : "Removed at this step · ", go);
  }

  /** Return all decisions about a node, including the ones shown above, so that a pressed row stays in its list. */
  #all(decisions, main) {
    const { trace, decisions: rows, moment } = this.parts;
    const at = (index) => [trace.recording.stages[trace.decisions[index].stage].name, trace.decisionPlace(index)].filter(Boolean).join(" · ");
    const row = (index) => rows.row(index, moment, [], undefined, at(index));
    const list = (title, indices) => (indices.length ? [heading(title), html("ol", { class: "ex-decisions" }, ...indices.slice(0, LISTED).map(row)), rest(indices.length)] : []);
    const reached = decisions.filter((index) => index < this.#reached);
    const isTold = reached.length === 1 && reached[0] === main;
    return [...(isTold ? [] : list("decisions about it", reached)), ...list("later decisions about it", decisions.slice(reached.length))];
  }

  #duplicates(node) {
    const duplicates = this.parts.sceneBuilder.duplicates(node, this.parts.moment.position);
    return duplicates.length ? [heading(`represents ${grouped(duplicates.length + 1)} equal nodes`), this.parts.list(duplicates, (each) => this.parts.trace.sourceText(each))] : [];
  }

  #neighbours(node) {
    const { trace, moment } = this.parts;
    const { operands, kind } = trace.nodes;
    const final = trace.resolver(moment.position);
    const reads = [...new Set(operands[node].map((operand) => final[operand]))].filter((operand) => kind[operand] !== "constant");
    const consumers = this.parts.readers(node, moment.position);
    const parts = [];
    if (reads.length) parts.push(heading("reads"), this.parts.list(reads));
    if (consumers.length) parts.push(heading(`read by ${grouped(consumers.length)}`), this.#readersBefore(node), this.parts.list(consumers));
    return parts;
  }

  /** Return the number of readers after each earlier stage that changed it: "as recorded 2, after dedup 3". @param {number} node */
  #readersBefore(node) {
    const { trace, timeline, moment } = this.parts;
    const counts = [];
    let changes = -1;
    for (const { name, kind, last } of timeline.stages.slice(0, moment.stage + 1)) {
      const position = Math.min(last, moment.position);
      if (trace.changesUntil(position) === changes || !trace.exists(node, position)) continue;
      changes = trace.changesUntil(position);
      const count = this.parts.readers(node, position).length;
      if (count !== counts.at(-1)?.count) counts.push({ count, when: kind === "record" ? "as recorded" : `after ${name}` });
    }
    return counts.length > 1 && html("div", { class: "ex-soft" }, ...explained(`readers: ${counts.map(({ count, when }) => `${when} ${grouped(count)}`).join(", ")}`));
  }
}
