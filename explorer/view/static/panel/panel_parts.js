// Common parts of the panels of nodes, boxes and moments: links, lists of nodes, kernels and memory.

import { BufferLanes } from "./buffer_lanes.js";
import { CutParts } from "./cut_parts.js";
import { DecisionCard } from "./decision_card.js";
import { Decisions } from "./decision_list.js";
import { KeptParts, LISTED, fitting, heading, nodeRows } from "./elements.js";
import { KernelCode } from "./kernel_code.js";
import { Summary } from "./program_summary.js";
import { valueView } from "./value_summary.js";
import { kernelSources } from "../data/kernel_sources.js";
import { bytesText, grouped, microsText, shortCounted } from "../data/number_format.js";
import { html } from "../dom.js";
import { Compositions } from "../scene/compositions.js";
import { GradientLinks } from "../scene/gradient_links.js";
import { Lineage } from "../scene/lineage.js";
import { badText, bufferText } from "../scene/slot_states.js";

/**
 * @typedef {{select: (node: number) => void, value: (node: number) => void, turnValue: () => void, go: (step: number) => void, visit: (node: number) => void, box: (box: number) => void,
 *   toggle: (box: number) => void, operation: (node: number) => void, find: (kind: string, isType: boolean) => void, kernel: (kernel: number) => void, firstNaN: () => void,
 *   changes: (node: number) => string[], trace: (direction: import("../scene/lineage.js").TraceDirection) => void,
 *   traceDirection: () => "" | import("../scene/lineage.js").TraceDirection, leafValue: (node: number) => string, line: (node: number) => void, light: () => void}} Actions value: selects the value of a node, as a click on its edge does; line: shows a node's line in the source; light: highlights the node of the current line of code; changes: returns a node's changes from the other graph;
 *   leafValue: returns the sentence about a leaf whose value is unknown
 */

/** Maximum number of lines of the user's program that are listed for a kernel. */
const SOURCES = 8;

/** Panel parts of one trace at the current moment. */
export class PanelParts {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("../scene/scene.js").SceneBuilder} sceneBuilder @param {import("../data/totals.js").Totals} totals @param {Actions} actions */
  constructor(trace, timeline, sceneBuilder, totals, actions) {
    this.trace = trace;
    this.timeline = timeline;
    this.sceneBuilder = sceneBuilder;
    this.totals = totals;
    this.actions = actions;
    this.bufferLanes = new BufferLanes(trace);
    this.gradientLinks = new GradientLinks(trace);
    this.compositions = new Compositions(trace);
    this.lineage = new Lineage(trace, sceneBuilder.paths);
    this.summary = new Summary(trace, totals);
    this.cut = new CutParts(trace);
    this.kept = new KeptParts();
    this.kernelCode = new KernelCode(trace, actions);
    this.decisionCard = new DecisionCard(trace, timeline, actions, this.kept);
    this.decisions = new Decisions(trace, timeline, (step) => actions.go(step));
    /** @type {import("../data/timeline.js").Moment | undefined} */ this.moment = undefined;
    this.selected = -1;
  }

  /** Return the recorded nodes inside a box. @param {number} box @returns {number[]} */
  inside(box) {
    return this.trace.nodesIn(box).filter((node) => this.trace.nodes.born[node] < 0);
  }

  /** Make a link that selects a node. */
  link(node, text) {
    return this.decisionCard.link(node, text);
  }

  /** Return lists of the gradient of a node or box, and of the nodes whose gradient it computes. @param {number} node @param {number} box */
  gradients(node, box) {
    return this.gradientLinks.tell(node, box, (each) => this.link(each), this.moment.position);
  }

  /** Return buttons that highlight everything before or after a node, and the number of highlighted items. @param {number} node */
  tracing(node) {
    const { trace, traceDirection } = this.actions;
    const button = (wanted, label) => html("button", { class: "ex-link", type: "button", "aria-pressed": String(traceDirection() === wanted), click: () => trace(wanted) }, label);
    const current = traceDirection();
    const said = current && this.trace.exists(node, this.moment.position) && ` · ${this.lineage.sentence(node, current, this.moment.position)}`;
    return html("div", { class: "ex-note", role: "status" }, button("inputs", "trace inputs (i)"), " · ", button("outputs", "trace outputs (r)"), " · ", html("button", { class: "ex-link", type: "button", click: () => this.actions.turnValue() }, "its value (v)"), said);
  }

  /** Return the nodes that read a node at a position. @param {number} node @param {number} position @returns {number[]} */
  readers(node, position) {
    const { trace } = this;
    const { operands } = trace.nodes;
    const final = trace.resolver(position);
    const readers = [];
    for (let other = 0; other < trace.count; other++) {
      if (trace.exists(other, position) && operands[other].some((operand) => final[operand] === node)) readers.push(other);
    }
    return readers;
  }

  /** Return the statistics of a node's value, or the reason why there are none. @param {number} node */
  value(node) {
    const { trace, moment } = this;
    const value = trace.values[node];
    if (value) return [heading(moment.phase === "run" || trace.nodes.kind[node] === "leaf" ? "value" : "value in the run"), valueView(value)];
    const state = this.actions.leafValue(node);
    return state ? [heading("value"), html("div", { class: "ex-note" }, state)] : [];
  }

  /** Return the source line that recorded a node, in the user's program or a file. */
  source(node) {
    const source = this.trace.recording.sources[this.trace.nodes.source[node]];
    const place = this.trace.sourceText(node);
    const isListed = source !== undefined && source.text !== "";
    const link = isListed ? html("button", { type: "button", class: "ex-link", title: "show this line in the source", click: () => this.actions.line(node) }, place) : html("span", {}, place);
    return source !== undefined && html("div", { class: "ex-source" }, link, html("code", {}, source.text.trim()));
  }

  /** Return nodes as a list of links, each with a note, such as its source line. @param {number[]} nodes @param {(node: number) => string} [note] */
  list(nodes, note = (_node) => "") {
    const row = (node) => html("li", {}, this.link(node), note(node) && html("span", { class: "ex-soft" }, ` ${note(node)}`));
    const rows = nodeRows(nodes, (node) => `${this.trace.namedLabel(node)}\n${note(node)}`, (node) => this.kept.part(`row|${node}|${note(node)}`, () => row(node)));
    return this.kept.filled("nodes", () => html("ul", { class: "ex-nodes" }), rows);
  }

  /** Return the number of values that contain NaN or inf, and a button that goes to the first NaN. */
  values() {
    const { trace } = this;
    const values = Object.values(trace.values);
    if (!values.length) return false;
    const bad = values.filter((value) => badText(value)).length;
    const first = trace.firstNaN >= 0 && html("button", { class: "ex-link ex-bad", type: "button", click: () => this.actions.firstNaN() }, "Go to the first NaN");
    return html("div", { class: "ex-note" }, bad ? html("b", { class: "ex-bad" }, `${grouped(bad)} of ${grouped(values.length)} values contain NaN or inf`) : `no NaN or inf in ${grouped(values.length)} values`, first && " · ", first);
  }

  /** Return the buffers over time and the values that are live while a kernel runs (−1: no kernel). */
  memory(kernel) {
    const { trace, bufferLanes } = this;
    if (!bufferLanes.lives.length) return [];
    const picture = bufferLanes.picture(kernel, { go: this.actions.kernel, select: this.actions.select }, this.selected);
    if (kernel < 0) return [this.kept.heading(bufferLanes.isPlanned ? "buffers over time" : "values over time"), picture];
    const [title, table] = this.living(kernel, "live now", trace.live(kernel));
    return [title, picture, table];
  }

  /** Return the values that are live while a kernel runs, the largest first. @param {number} kernel @param {string} when @param {number | null} bytes their total size, null if unknown */
  living(kernel, when, bytes) {
    const count = this.bufferLanes.alive(kernel).length;
    const size = bytes === null ? "" : `, ${bytesText(bytes)}`;
    return [this.kept.heading(`${when}: ${grouped(count)} ${count === 1 ? "value" : "values"}${size}`), this.bufferLanes.table(kernel, (node) => this.link(node), this.kept)];
  }

  /** Return the values that are live at the memory peak; nothing if the compiler does not report the live memory. */
  peak() {
    const { trace, bufferLanes } = this;
    if (!bufferLanes.lives.length || trace.kernels.every(({ live }) => live === null)) return [];
    const kernel = trace.kernels.reduce((most, { live }, index, all) => (live > all[most].live ? index : most), 0);
    const name = trace.recording.placements?.[kernel]?.name;
    const where = `most live, in kernel ${grouped(kernel + 1)} of ${grouped(trace.kernels.length)}`;
    const [title, table] = this.living(kernel, where, trace.kernels[kernel].live);
    // Headings are written in capitals, which a name must not be.
    const link = () => html("button", { class: "ex-link", type: "button", title: "go to this kernel", click: () => this.actions.kernel(kernel) }, html("code", {}, name));
    return [title, name ? this.kept.part(`peak|${kernel}`, link) : "", table].filter(Boolean);
  }

  /** Return a table about the kernel of a node. @param {number} node */
  kernel(node) {
    const { trace } = this;
    const index = trace.kernelOf[node];
    if (index < 0) return [];
    const kernel = trace.kernels[index];
    const step = trace.steps[trace.stepOf.get(index)];
    const { nodes } = kernel;
    const placement = trace.recording.placements?.[index];
    const again = [...trace.kernelsOf.of(node)].filter((other) => other !== index);
    const members = () => nodes.slice(0, LISTED).flatMap((member, place) => [place ? " → " : "", member === node ? trace.namedLabel(member) : this.link(member)]);
    const fused = () => [html("span", {}, ...members(), nodes.length > LISTED && ` and ${grouped(nodes.length - LISTED)} more`)];
    /** @type {[string, string, (() => (Node | string)[])?][]} */
    const rows = [
      nodes.length > 1 ? ["fuses", `${nodes} around ${node}`, fused] : ["fuses", "nothing: this operation alone"],
      ["number", `${grouped(index + 1)} of ${grouped(trace.kernels.length)}`],
      ["level, chain", kernel.level === null ? "" : `${kernel.level}, ${kernel.chain}`],
      ["runs", trace.once.has(index) ? "once, before the first run" : ""],
      ["memory", bufferText(kernel, trace.once.has(index))],
      ["work", kernel.flops === null ? "" : shortCounted(kernel.flops, "flop")],
      ["estimated", kernel.estimate === null ? "" : `${microsText(kernel.estimate)} on ${trace.recording.options.costs === "measured" ? "this machine" : "the reference machine"}`],
      ["computed by", [placement?.computed_by, placement?.provider, placement?.device].filter(Boolean).join(" · ")],
      ["name", placement?.name ?? "", () => [html("code", {}, placement.name)]],
      ["also computed in", again.map((other) => `kernel ${grouped(other + 1)}`).join(", ")],
      ["measured", step ? `${microsText(step.micros)} in a ${trace.recording.run.warm ? "warm" : "first"} run` + (trace.steps.some(({ thread }) => thread) ? `, begun at ${microsText(step.start)} on thread ${step.thread}` : "") : ""],
    ];
    const isAhead = this.moment.phase === "record" || this.moment.phase === "rewrite";
    return [this.kept.heading(isAhead ? "its kernel in the final plan" : "kernel"), this.kept.facts(rows.filter(([, value]) => value)), ...this.#lines(index), ...(this.isCodeFirst ? [] : this.code(index, node))];
  }

  /** Return the lines of the program that a kernel computes, if it computes several. @param {number} kernel */
  #lines(kernel) {
    // Explorer's code of a kernel contains its lines.
    if (this.trace.recording.codes?.[kernel] && !this.trace.recording.options.compiler) return [];
    const nodes = kernelSources(this.trace, kernel);
    if (nodes.length < 2) return [];
    const [shown, left] = fitting(nodes, SOURCES);
    const draw = () => html("div", { class: "ex-kernel-lines" }, ...shown.map((node) => this.source(node)), left > 0 && html("div", { class: "ex-soft" }, `and ${grouped(left)} more`));
    return [this.kept.part(`lines|${nodes.length}`, () => html("h5", { "aria-level": 3 }, `computes ${grouped(nodes.length)} lines`)), this.kept.part(`sources|${kernel}`, draw)];
  }

  /** Whether the code of a kernel comes before the other parts of the panel: at the stages that generate and run it. */
  get isCodeFirst() {
    return this.moment.phase === "format" || this.moment.phase === "run";
  }

  /** Return the code of a kernel, in which the lines of a node are marked; −1: none. @param {number} kernel @param {number} node */
  code(kernel, node) {
    const shown = this.kernelCode.show(kernel, node);
    return shown ? [this.kept.heading(`code, ${this.trace.recording.codes[kernel].language}`), shown] : [];
  }
}
