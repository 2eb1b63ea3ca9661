// Summary of a program: inputs, outputs, most frequent operators, and the output of each part.

import { html } from "../dom.js";
import { bytesText, counted, grouped, shortCounted } from "../data/number_format.js";
import { fitting } from "./elements.js";

const [NAMED, KINDS] = [3, 12];

/** @typedef {{node: number, name?: string, direction?: string}} End an input or output */

/** Summary of one trace, computed once. */
export class Summary {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/totals.js").Totals} totals */
  constructor(trace, totals) {
    this.trace = trace;
    this.totals = totals;
    const { bodies, nodes, leaves, interface: ends = [] } = trace.recording;
    const [top] = bodies;
    const named = (top?.inputs ?? []).filter((node) => nodes.kind[node] === "input" && leaves.parameters[node] === undefined);
    const free = (node) => leaves.others[node] !== undefined;
    /** @type {End[]} as in the model's file */
    this.takes = ends.length ? ends.filter(({ direction }) => direction === "input") : (named.length ? named : (top?.inputs ?? []).filter(free)).map((node) => ({ node }));
    /** @type {End[]} */
    this.gives = ends.length ? ends.filter(({ direction }) => direction === "output") : (top?.outputs ?? []).map((node) => ({ node }));
    this.results = new Map();
    this.sentence = this.#sentence();
  }

  /** Return a sentence with types as short as in nodes: "resnet18: 1×3×224×224 f32 → 1×1000 f32, 11,684,712 parameters, 3.64 G flops." */
  #sentence() {
    const { trace, takes, gives } = this;
    const title = trace.recording.title;
    const several = takes.length > 1;
    const inputs = takes.map(({ node, name }) => [several && (name ?? (this.#isNamed(node) && trace.label(node))), this.#size(node)].filter(Boolean).join(" "));
    const flow = gives.length ? [listed(inputs), listed(gives.map(({ node }) => this.#size(node)))].filter(Boolean).join(" → ") : "";
    const cost = this.totals.at(0)[0];
    const sums = [cost.parameters && `${counted(cost.parameters, "parameter")} · ${bytesText(cost.weights)}`, cost.flops && shortCounted(cost.flops, "flop")];
    const said = [flow, ...sums].filter(Boolean).join(", ");
    return said && (title ? `${title}: ${said}.` : `${said}.`);
  }

  /** Return the type of a node, without the names of its lengths if the title states them: "net (batch = 1)". @param {number} node */
  #size(node) {
    const { trace } = this;
    const { shape, named } = trace.recording.types[trace.nodes.type[trace.origin(node)]];
    const type = trace.shortType(node);
    return named && trace.recording.title.includes(" = ") && type.startsWith(named) ? shape.join("×") + type.slice(named.length) : type;
  }

  /** Counts of a file's operator types, else of operation names, the most frequent first: [["nn.Conv2d", 20], …]. */
  get kinds() {
    const { recording, nodes } = this.trace;
    const counts = new Map();
    const add = (name) => counts.set(name, (counts.get(name) ?? 0) + 1);
    for (const { type } of recording.scopes) if (type) add(type);
    if (!counts.size) nodes.kind.forEach((role, node) => (role === "operation" || role === "call") && nodes.born[node] < 0 && add(recording.operations[nodes.operation[node]]));
    return [...counts].sort((a, b) => b[1] - a[1]);
  }

  /** Return the shape of the result of a box's last recorded node, "" if it has none. @param {number} box */
  result(box) {
    if (!this.results.has(box)) this.results.set(box, this.#result(box));
    return this.results.get(box);
  }

  #result(box) {
    const { layout, nodes } = this.trace;
    let last = -1;
    const inside = [box];
    for (const index of inside) {
      for (const item of layout.boxes[index].items) {
        if (item.box !== undefined) inside.push(item.box);
        else for (const node of layout.slots[item.slot].nodes) if (nodes.born[node] < 0 && nodes.kind[node] === "operation") last = Math.max(last, node);
      }
    }
    return last < 0 ? "" : this.trace.shapeText(nodes.type[last]);
  }

  /** Whether a node has its own name instead of its operation's. */
  #isNamed(node) {
    const { nodes, recording } = this.trace;
    return this.trace.namedLabel(node) !== recording.operations[nodes.operation[node]];
  }

  #type(node) {
    return this.trace.typeText(this.trace.nodes.type[node]);
  }

  /** Return the name of an input or output, in the file if it has one. @param {End} end */
  #named({ node, name }) {
    return name ?? this.trace.namedLabel(node);
  }

  /** Return the operator that computes an output which the file names, " · Softmax", else "". @param {End} end */
  #computed({ node, name, direction }) {
    if (name === undefined || direction !== "output") return "";
    const type = this.trace.operatorType(node) || this.trace.namedLabel(node);
    return type === name ? "" : ` · ${type}`;
  }

  /** Return a table of inputs, outputs and operators. @param {(node: number, text?: string) => Element} link @param {(kind: string, isType: boolean) => void} find searches for all operators of a type or nodes of an operation */
  table(link, find) {
    const table = html("dl", { class: "ex-facts ex-summary" });
    /** @type {[string, End[]][]} */
    const sides = [["inputs", this.takes], ["outputs", this.gives]];
    for (const [name, ends] of sides) {
      if (!ends.length) continue;
      const alike = [...groups(ends, (end) => `${this.#named(end)} ${this.#type(end.node)}${this.#computed(end)}`).values()];
      const [shown, left] = fitting(alike.flatMap((same) => (same.length > NAMED ? [same] : same.map((end) => [end]))), NAMED);
      const rows = shown.map(([end, ...others]) => {
        const { node } = end;
        const type = `${this.#type(node)}${this.#computed(end)}`;
        const count = others.length ? ` ×${grouped(others.length + 1)}` : "";
        const parts = end.name !== undefined || this.#isNamed(node) || name === "outputs" ? [link(node, this.#named(end)), html("span", { class: "ex-soft" }, ` ${type}${count}`)] : [link(node, type), html("span", { class: "ex-soft" }, count)];
        return html("div", {}, ...parts);
      });
      table.append(html("dt", {}, name), html("dd", {}, ...rows, left > 0 && html("div", { class: "ex-soft" }, `and ${grouped(left)} more`)));
    }
    const { kinds } = this;
    const [shown, left] = fitting(kinds, KINDS);
    const isType = this.trace.recording.scopes.some(({ type }) => type);
    const said = shown.map(([name, count]) => html("span", {}, html("button", { type: "button", class: "ex-link", title: "find all", click: () => find(name, isType) }, `${name}${count > 1 ? ` ×${grouped(count)}` : ""}`)));
    if (said.length) table.append(html("dt", {}, "operations"), html("dd", { class: "ex-kinds" }, ...said, left > 0 && html("span", { class: "ex-soft" }, `and ${grouped(left)} more`)));
    return table;
  }
}

/** Group parts with equal texts, in the order of first occurrence. @template T @param {T[]} parts @param {(part: T) => string} read */
function groups(parts, read) {
  /** @type {Map<string, any[]>} */ const alike = new Map();
  for (const part of parts) {
    const same = alike.get(read(part));
    if (same) same.push(part);
    else alike.set(read(part), [part]);
  }
  return alike;
}

/** Join strings on one line; equal strings appear once, with their number. */
function listed(texts) {
  const [shown, left] = fitting([...groups(texts, (text) => text)], NAMED);
  const said = shown.map(([text, same]) => (same.length > 1 ? `${text} ×${grouped(same.length)}` : text)).join(", ");
  return left ? `${said} and ${grouped(left)} more` : said;
}
