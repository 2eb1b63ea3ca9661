// Common parts of the panels of nodes, boxes and moments: links, lists of nodes, kernels and memory.

import { BufferLanes } from "./buffer_lanes.js";
import { CutParts } from "./cut_parts.js";
import { DecisionCard } from "./decision_card.js";
import { Decisions } from "./decision_list.js";
import { KeptParts, LISTED, nodeRows } from "./elements.js";
import { Summary } from "./program_summary.js";
import { bytesText, grouped, microsText, shortCounted } from "../data/number_format.js";
import { html } from "../dom.js";
import { Compositions } from "../scene/compositions.js";
import { GradientLinks } from "../scene/gradient_links.js";
import { Lineage } from "../scene/lineage.js";
import { badText, bufferText } from "../scene/slot_states.js";

/**
 * @typedef {{select: (node: number) => void, go: (step: number) => void, visit: (node: number) => void, box: (box: number) => void,
 *   toggle: (box: number) => void, operation: (node: number) => void, find: (kind: string, isType: boolean) => void, kernel: (kernel: number) => void, firstNaN: () => void,
 *   changes: (node: number) => string[], trace: (direction: import("../scene/lineage.js").TraceDirection) => void,
 *   traceDirection: () => "" | import("../scene/lineage.js").TraceDirection, leafValue: (node: number) => string, line: (node: number) => void}} Actions line: shows a node's line in the source; changes: returns a node's changes from the other graph;
 *   leafValue: returns the sentence about a leaf whose value is unknown
 */

/** Maximum number of lines of code on the page. */
const LINES = 400;

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
    this.decisionCard = new DecisionCard(trace, timeline, actions, this.kept);
    this.decisions = new Decisions(trace, timeline, (step) => actions.go(step));
    /** @type {import("../data/timeline.js").Moment | undefined} */ this.moment = undefined;
    this.selected = -1;
  }

  /** Return the recorded nodes inside a box. @param {number} box @returns {number[]} */
  inside(box) {
    const { layout, nodes } = this.trace;
    const inside = [box];
    const slots = [];
    for (const index of inside) for (const item of layout.boxes[index].items) (item.box === undefined ? slots : inside).push(item.box ?? item.slot);
    return slots.flatMap((slot) => layout.slots[slot].nodes).filter((node) => nodes.born[node] < 0);
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
    return html("div", { class: "ex-note", role: "status" }, button("inputs", "trace inputs (i)"), " · ", button("outputs", "trace outputs (r)"), said);
  }

  /** Return the source line that recorded a node, in the user's program or a file. */
  source(node) {
    const source = this.trace.recording.sources[this.trace.nodes.source[node]];
    const place = this.trace.sourceText(node);
    const isListed = source !== undefined && source.text !== "";
    const link = isListed ? html("button", { type: "button", class: "ex-link", title: "show this line in the source", click: () => this.actions.line(node) }, place) : html("span", {}, place);
    return source !== undefined && html("div", { class: "ex-source" }, link, html("code", {}, source.text.trim()));
  }

  /** Return nodes as a list of links, with their source lines if `located`. @param {number[]} nodes */
  list(nodes, located = false) {
    const where = (node) => (located ? this.trace.sourceText(node) : "");
    const row = (node) => html("li", {}, this.link(node), where(node) && html("span", { class: "ex-soft" }, ` ${where(node)}`));
    const rows = nodeRows(nodes, (node) => `${this.trace.namedLabel(node)}\n${where(node)}`, (node) => this.kept.part(`row|${node}|${located}`, () => row(node)));
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

  /** Return the values that are live at the memory peak. */
  peak() {
    const { trace, bufferLanes } = this;
    if (!bufferLanes.lives.length) return [];
    const kernel = trace.kernels.reduce((most, { live }, index, all) => (live > all[most].live ? index : most), 0);
    return this.living(kernel, `most live, in kernel ${grouped(kernel + 1)} of ${grouped(trace.kernels.length)}`, trace.kernels[kernel].live);
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
      ["memory", bufferText(kernel)],
      ["work", kernel.flops === null ? "" : shortCounted(kernel.flops, "flop")],
      ["estimated", kernel.estimate === null ? "" : `${microsText(kernel.estimate)} on ${trace.recording.options.costs === "measured" ? "this machine" : "the reference machine"}`],
      ["computed by", [placement?.computed_by, placement?.provider, placement?.device].filter(Boolean).join(" · ")],
      ["name", placement?.name ?? "", () => [html("code", {}, placement.name)]],
      ["also computed in", again.map((other) => `kernel ${grouped(other + 1)}`).join(", ")],
      ["measured", step ? `${microsText(step.micros)} in a ${trace.recording.run.warm ? "warm" : "first"} run` + (trace.steps.some(({ thread }) => thread) ? `, begun at ${microsText(step.start)} on thread ${step.thread}` : "") : ""],
    ];
    const isAhead = this.moment.phase === "record" || this.moment.phase === "rewrite";
    return [this.kept.heading(isAhead ? "its kernel in the final plan" : "kernel"), this.kept.facts(rows.filter(([, value]) => value)), ...this.#code(index, node)];
  }

  /** Return the code of a kernel, in which the lines of a node are marked. @param {number} kernel @param {number} node */
  #code(kernel, node) {
    const code = this.trace.recording.codes?.[kernel];
    if (!code) return [];
    const own = new Set(code.nodes.filter(([, computed]) => computed === node).map(([line]) => line));
    const draw = () => {
      const { lines } = code;
      const [first = 1] = own;
      // Only lines around the node's are on the page, because a kernel may have 100,000.
      const from = Math.max(0, Math.min(first - 1 - LINES / 4, lines.length - LINES));
      const rows = lines.slice(from, from + LINES).map((text, place) => (own.has(from + place + 1) ? html("mark", {}, text) : text));
      const cut = rows.length < lines.length && html("div", { class: "ex-soft" }, `lines ${grouped(from + 1)} to ${grouped(from + rows.length)} of ${grouped(lines.length)}`);
      return html("div", {}, html("pre", { class: "ex-kernel-code", tabindex: 0, role: "region", "aria-label": `code of kernel ${kernel + 1}` }, ...rows.flatMap((row) => [row, "\n"])), cut);
    };
    return [this.kept.part(`language|${code.language}`, () => html("h5", { "aria-level": 3 }, `code, ${code.language}`)), this.kept.part(`code|${kernel}|${node}`, draw)];
  }
}
