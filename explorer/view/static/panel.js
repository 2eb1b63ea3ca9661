// The why panel: what a node or a decision is, what was decided about it, what was refused before, what it cost.

import { html, visible } from "./dom.js";
import { bytesText, countText, factFragments, grouped, microsText } from "./reason.js";
import { bufferText } from "./scene.js";
import { valueView } from "./value.js";

const LISTED = 40;

/**
 * @typedef {{select: (node: number) => void, go: (step: number) => void, visit: (node: number) => void}} Actions
 */

/** Fills the panel for the selected node, or for the moment where nothing is selected. */
export class Panel {
  /** @param {import("./trace.js").Trace} trace @param {import("./story.js").Story} story @param {import("./scene.js").Director} director @param {Actions} actions */
  constructor(trace, story, director, actions) {
    Object.assign(this, { trace, story, director, actions });
    this.scrolled = false;
    this.root = html("aside", { class: "ex-why", tabindex: -1, "aria-label": "why", scroll: () => (this.scrolled = true) });
  }

  /** @param {import("./story.js").Moment} moment @param {number} selected a node, −1 for none */
  show(moment, selected) {
    this.moment = moment;
    const parts = selected >= 0 ? this.#node(selected) : this.#moment();
    this.root.replaceChildren(...parts.filter(Boolean));
    if (this.scrolled) this.root.scrollTop = 0;
    this.scrolled = false;
  }

  /** A node's name that selects it. */
  link(node, text = this.trace.label(node)) {
    return html("button", { class: "ex-link", type: "button", "data-node": node, click: () => this.actions.select(node) }, text);
  }

  /** The sentence of a decision, its nodes as links. */
  sentence(index) {
    return this.trace.sentence(index).map(({ text, node }) => (node >= 0 ? this.link(node, text) : text));
  }

  #node(node) {
    const { trace, moment } = this;
    const { type } = trace.nodes;
    const parts = [html("h4", {}, trace.label(node)), this.#origin(node, trace.typeText(type[node]))];
    if (!trace.exists(node, moment.position)) parts.push(this.#absent(node));
    const decisions = trace.decisionsOf(node);
    const past = decisions.filter((index) => index < moment.position);
    const main = past.includes(moment.decision) ? moment.decision : (past.findLast((index) => trace.decisions[index].verdict === "applied") ?? past.at(-1));
    if (main !== undefined) parts.push(this.#card(main), this.#facts(main), ...this.#alsoTried(main));
    const shown = new Set([main, ...(main === undefined ? [] : this.#before(main))]);
    parts.push(...this.#others(decisions.filter((index) => !shown.has(index))));
    parts.push(...this.#duplicates(node), ...this.#neighbours(node), ...this.#kernel(node));
    const value = trace.recording.run?.values[node];
    if (value) parts.push(heading("value"), valueView(value));
    return parts;
  }

  #origin(node, type) {
    const { trace } = this;
    const place = html("div", { class: "ex-sub" }, type);
    const scope = trace.scopePath(node);
    if (scope.length) place.append(" · scope ", html("code", {}, scope.join(" / ")));
    for (const [name, value] of Object.entries(trace.nodes.attributes[node] ?? {})) {
      place.append(" · ", visible(name), " ", html("code", {}, visible(value)));
    }
    const source = trace.recording.sources[trace.nodes.source[node]];
    if (!source) return place;
    return html("div", {}, place, html("div", { class: "ex-source" }, html("span", {}, trace.sourceText(node)), html("code", {}, visible(source.text.trim()))));
  }

  #absent(node) {
    const { born } = this.trace.nodes;
    const later = born[node] >= this.moment.position;
    const go = html("button", { class: "ex-link", type: "button", click: () => this.actions.visit(node) }, later ? "go to where it is made" : "go to where it went");
    return html("div", { class: "ex-note" }, later ? "Not made yet at this step · " : "Gone at this step · ", go);
  }

  #moment() {
    const { trace, story, moment } = this;
    const chapter = story.chapters[moment.chapter];
    if (!chapter) return [html("h4", {}, "nothing recorded")];
    if (moment.decision >= 0) {
      const decision = trace.decisions[moment.decision];
      return [
        html("h4", { class: `ex-mark-${decision.verdict}` }, `${decision.verdict === "applied" ? "✓" : "✗"} ${visible(decision.link)}`),
        html("div", { class: "ex-sub" }, visible(chapter.purpose || chapter.name)),
        html("code", { class: "ex-where" }, visible([decision.code, decision.location].filter(Boolean).join(" · "))),
        this.#facts(moment.decision),
        ...this.#alsoTried(moment.decision),
        ...this.#subjects(decision),
        ...this.#chapterList(chapter),
      ];
    }
    const parts = [html("h4", {}, visible(chapter.name)), html("div", { class: "ex-sub" }, visible(chapter.purpose))];
    if (moment.kernel >= 0) return [...parts, ...this.#picked(moment.kernel)];
    return [...parts, heading("in numbers"), this.#counts(chapter), ...this.#options(chapter), ...this.#chapterList(chapter)];
  }

  #picked(index) {
    const { trace } = this;
    const kernel = trace.kernels[index];
    const nodes = [heading("computes"), this.#list(kernel.nodes)];
    if (this.moment.phase === "order") nodes.push(heading(`could have been picked (${grouped(kernel.ready_count)})`), this.#list(kernel.ready));
    return [...nodes, ...this.#kernel(kernel.nodes.at(-1)), ...(kernel.frees.length ? [heading("frees"), this.#list(kernel.frees)] : [])];
  }

  #card(index) {
    const decision = this.trace.decisions[index];
    const applied = decision.verdict === "applied";
    const title = html("b", {}, `${applied ? "✓" : "✗"} ${visible(decision.link)}`);
    const where = html("code", { class: "ex-where" }, visible([decision.code, decision.location].filter(Boolean).join(" · ")));
    const head = html("div", { class: "ex-card-head" }, title, html("span", { class: "ex-soft" }, applied ? "applied" : "declined"));
    return html("div", { class: `ex-card ex-card-${decision.verdict}` }, head, html("div", {}, ...this.sentence(index)), where);
  }

  #facts(index) {
    const { facts } = this.trace.decisions[index];
    const table = html("dl", { class: "ex-facts" });
    for (const [name, value] of Object.entries(facts)) {
      const said = factFragments(name, value, this.trace.label).map(({ text, node }) => (node >= 0 ? this.link(node, text) : visible(text)));
      table.append(html("dt", {}, visible(name.replace(/_(bytes|us|flops)$/, "").replaceAll("_", " "))), html("dd", {}, ...said));
    }
    return table;
  }

  /** The refusals before a decision, in its stage, that concern the same nodes. */
  #before(index) {
    const { decisions } = this.trace;
    const { subjects, stage } = decisions[index];
    const same = new Set(subjects);
    const found = [];
    for (let other = this.trace.recording.stages[stage].first; other < index; other++) {
      if (decisions[other].verdict === "declined" && decisions[other].subjects.some((node) => same.has(node))) found.push(other);
    }
    return found;
  }

  #alsoTried(index) {
    const before = this.#before(index);
    if (!before.length) return [];
    const cards = before.slice(0, LISTED).map((other) => {
      const { link, location } = this.trace.decisions[other];
      const jump = html("button", { class: "ex-link ex-strong", type: "button", title: visible(location), click: () => this.actions.go(this.story.afterDecision(other)) }, `✗ ${visible(link)}`);
      return html("li", { class: "ex-card ex-card-declined" }, jump, " ", ...this.sentence(other));
    });
    return [heading("also tried, in this order"), html("ol", { class: "ex-cards" }, ...cards), rest(before.length)];
  }

  #others(indices) {
    if (!indices.length) return [];
    return [heading("other decisions on it"), html("ol", { class: "ex-decisions" }, ...indices.slice(0, LISTED).map((index) => this.#row(index))), rest(indices.length)];
  }

  #row(index) {
    const { trace, story, moment } = this;
    const decision = trace.decisions[index];
    const text = trace.sentence(index).map((fragment) => fragment.text).join("");
    const mark = html("span", { class: `ex-mark ex-mark-${decision.verdict}`, "aria-label": decision.verdict }, decision.verdict === "applied" ? "✓" : "✗");
    const row = html("button", { type: "button", click: () => this.actions.go(story.afterDecision(index)), title: text }, mark, html("span", {}, text));
    return html("li", { class: index === moment.decision ? "ex-now" : index < moment.position ? "" : "ex-later" }, row);
  }

  #chapterList(chapter) {
    const count = chapter.last - chapter.first;
    if (count < 2) return [];
    const middle = this.moment.decision >= 0 ? this.moment.decision : chapter.first;
    const from = Math.max(chapter.first, Math.min(middle - LISTED / 2, chapter.last - LISTED));
    const rows = [];
    for (let index = from; index < Math.min(chapter.last, from + LISTED); index++) rows.push(this.#row(index));
    return [heading(`${visible(chapter.name)}: ${grouped(chapter.applied)} applied, ${grouped(chapter.declined)} declined`), html("ol", { class: "ex-decisions" }, ...rows), rest(count)];
  }

  #subjects(decision) {
    const parts = [];
    if (decision.subjects.length) parts.push(heading("about"), this.#list(decision.subjects, true));
    if (decision.produced.length) parts.push(heading("made"), this.#list(decision.produced));
    return parts;
  }

  #list(nodes, located = false) {
    const rows = nodes.slice(0, LISTED).map((node) => {
      const where = located ? this.trace.sourceText(node) : "";
      return html("li", {}, this.link(node), where && html("span", { class: "ex-soft" }, ` ${where}`));
    });
    return html("ul", { class: "ex-nodes" }, ...rows, nodes.length > LISTED && html("li", { class: "ex-soft" }, `and ${grouped(nodes.length - LISTED)} more`));
  }

  #counts(chapter) {
    const table = html("dl", { class: "ex-facts" });
    const before = this.story.chapters[this.moment.chapter - 1]?.counts ?? {};
    for (const [name, value] of Object.entries(chapter.counts)) {
      const text = countOf(name, value);
      const changed = name in before && before[name] !== value;
      table.append(html("dt", {}, visible(name.replaceAll("_", " "))), html("dd", {}, changed ? `${countOf(name, before[name])} → ${text}` : text));
    }
    return table;
  }

  #options(chapter) {
    const options = Object.entries(this.trace.recording.options);
    if (chapter.kind !== "record" || !options.length) return [];
    const table = html("dl", { class: "ex-facts" });
    for (const [name, value] of options) table.append(html("dt", {}, visible(name)), html("dd", {}, visible(typeof value === "string" ? value : JSON.stringify(value))));
    return [heading("options of the plan"), table];
  }

  #duplicates(node) {
    const found = this.director.duplicates(node, this.moment.position);
    return found.length ? [heading(`stands for ${grouped(found.length + 1)} equal nodes`), this.#list(found, true)] : [];
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
    const rows = [
      ["number", `${grouped(index + 1)} of ${grouped(trace.kernels.length)}`],
      ["level, chain", `${kernel.level}, ${kernel.chain}`],
      ["memory", bufferText(kernel, trace.recording.schedule)],
      ["work", `${countText(kernel.flops)} flops`],
      ["estimated", microsText(kernel.estimate)],
      ["measured", step ? microsText(step.micros) : ""],
    ];
    const table = html("dl", { class: "ex-facts" });
    for (const [name, value] of rows) if (value) table.append(html("dt", {}, name), html("dd", {}, value));
    return [heading("kernel"), table];
  }
}

const heading = (text) => html("h5", {}, text);
const rest = (count) => count > LISTED && html("div", { class: "ex-soft" }, `${grouped(LISTED)} of ${grouped(count)} shown`);

/** A stage's count with its unit. */
export function countOf(name, value) {
  if (name === "bytes" || name.startsWith("peak") || name.endsWith("_bytes")) return bytesText(value);
  return name === "flops" ? countText(value) : grouped(value);
}
