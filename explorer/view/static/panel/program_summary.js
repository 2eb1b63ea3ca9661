// Summary of a program: inputs, outputs, the most frequent operators, and the output of each part.

import { html } from "../dom.js";
import { bytesText, countText, grouped } from "../data/number_format.js";

const [NAMED, KINDS] = [3, 12];

/** Summaries of one trace, computed once. */
export class Summary {
  /** @param {import("../data/recording.js").Trace} trace @param {import("../data/totals.js").Totals} totals */
  constructor(trace, totals) {
    this.trace = trace;
    this.totals = totals;
    const { bodies, nodes, leaves } = trace.recording;
    const [top] = bodies;
    const named = (top?.inputs ?? []).filter((node) => nodes.kind[node] === "input" && leaves.parameters[node] === undefined);
    const free = (node) => leaves.others[node] !== undefined;
    this.takes = named.length ? named : (top?.inputs ?? []).filter(free);
    this.gives = top?.outputs ?? [];
    this.results = new Map();
  }

  /** "resnet18: 1×3×224×224 float32 → 1×1000 float32, 11,684,712 parameters, 3.64 G flops." */
  get sentence() {
    const { trace, takes, gives } = this;
    const title = trace.recording.title;
    const several = takes.length > 1;
    const given = takes.slice(0, NAMED).map((node) => [several && trace.label(node), this.#type(node)].filter(Boolean).join(" "));
    const made = gives.slice(0, NAMED).map((node) => this.#type(node));
    const flow = made.length ? [listed(given, takes.length), listed(made, gives.length)].filter(Boolean).join(" → ") : "";
    const cost = this.totals.at(0)[0];
    const sums = [cost.parameters && `${grouped(cost.parameters)} parameters · ${bytesText(cost.weights)}`, cost.flops && `${countText(cost.flops)} flops`];
    const said = [flow, ...sums].filter(Boolean).join(", ");
    return said && (title ? `${title}: ${said}.` : `${said}.`);
  }

  /** Operators of a file by their type, else operations by their name, the most frequent first: [["nn.Conv2d", 20], …]. */
  get kinds() {
    const { recording, nodes } = this.trace;
    const counts = new Map();
    const add = (kind) => counts.set(kind, (counts.get(kind) ?? 0) + 1);
    for (const { type } of recording.scopes) if (type) add(type);
    if (!counts.size) nodes.kind.forEach((kind, node) => (kind === "operation" || kind === "call") && nodes.born[node] < 0 && add(recording.operations[nodes.operation[node]]));
    return [...counts].sort((one, other) => other[1] - one[1]);
  }

  /** The shape of the result of a box's last recorded node, "" if it has none. @param {number} box */
  result(box) {
    if (!this.results.has(box)) this.results.set(box, this.#result(box));
    return this.results.get(box);
  }

  #result(box) {
    const { layout, nodes, recording } = this.trace;
    let last = -1;
    const inside = [box];
    for (const index of inside) {
      for (const item of layout.boxes[index].items) {
        if (item.box !== undefined) inside.push(item.box);
        else for (const node of layout.slots[item.slot].nodes) if (nodes.born[node] < 0 && nodes.kind[node] === "operation") last = Math.max(last, node);
      }
    }
    return recording.types[nodes.type[last]]?.shape.join("×") ?? "";
  }

  #type(node) {
    return this.trace.typeText(this.trace.nodes.type[node]);
  }

  /** Inputs, outputs and operators as a table. @param {(node: number) => Element} link */
  table(link) {
    const table = html("dl", { class: "ex-facts ex-summary" });
    const ends = [["inputs", this.takes], ["outputs", this.gives]];
    for (const [name, nodes] of ends) {
      if (!nodes.length) continue;
      const rows = nodes.slice(0, NAMED).map((node) => html("div", {}, link(node), html("span", { class: "ex-soft" }, ` ${this.#type(node)}`)));
      table.append(html("dt", {}, name), html("dd", {}, ...rows, nodes.length > NAMED && html("div", { class: "ex-soft" }, `and ${grouped(nodes.length - NAMED)} more`)));
    }
    const { kinds } = this;
    const said = kinds.slice(0, KINDS).map(([kind, count]) => html("span", {}, `${kind}${count > 1 ? ` ×${grouped(count)}` : ""}`));
    if (said.length) table.append(html("dt", {}, "operations"), html("dd", { class: "ex-kinds" }, ...said, kinds.length > KINDS && html("span", { class: "ex-soft" }, `and ${grouped(kinds.length - KINDS)} more`)));
    return table;
  }
}

function listed(texts, count) {
  return count > texts.length ? `${texts.join(", ")} and ${grouped(count - texts.length)} more` : texts.join(", ");
}
