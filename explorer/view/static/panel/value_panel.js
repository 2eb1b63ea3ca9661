// The panel of a value that an edge carries: its names and type, the node that computes it, the nodes that read it, its memory and statistics.

import { heading } from "./elements.js";
import { operandText } from "./operand_rows.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";

const UNRECORDED = 'Not recorded. A run with record="values", or explorer show FILE --input x.npz, records the statistics of values.';

/** Panel content for a selected value. */
export class ValuePanel {
  /** @param {import("./panel_parts.js").PanelParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  /** @param {number} node @param {number[]} carried the values of the selected edge */
  content(node, carried) {
    const { parts } = this;
    const { trace, moment, kept } = parts;
    const names = trace.operands.names(node, moment.position);
    const readers = parts.readers(node, moment.position);
    const others = carried.filter((each) => each !== node);
    const value = parts.value(node);
    const rows = [
      ["also named", names.slice(1).join(", ")],
      ["output of the model", trace.outputNames(node).join(", ")],
      ["in memory", this.#memory(node)],
    ];
    const list = (title, nodes, note) => (nodes.length ? [heading(title), parts.list(nodes, note)] : []);
    return [
      html("h4", { "aria-level": 2 }, trace.valueName(node, moment.position)),
      html("div", { class: "ex-sub" }, `the value of an edge · ${trace.typeText(trace.nodes.type[node])}`),
      html("div", { class: "ex-note" }, html("button", { class: "ex-link", type: "button", click: () => parts.actions.turnValue() }, "its node (v)")),
      kept.facts(rows.filter(([, text]) => text)),
      ...list(trace.nodes.operands[node].length ? "computed by" : "given as", [trace.origin(node)], (each) => operandText(parts, each, node, true)),
      ...list(`read by ${grouped(readers.length)}`, readers, (each) => operandText(parts, each, node)),
      ...list("other values of this edge", others, (each) => trace.typeText(trace.nodes.type[each])),
      ...(value.length ? value : [heading("value"), html("div", { class: "ex-note" }, UNRECORDED)]),
    ];
  }

  /** Return how long a value is in memory in the final plan. @param {number} node */
  #memory(node) {
    const { trace } = this.parts;
    const kernel = trace.kernelOf[node];
    if (kernel < 0) return "";
    if (trace.kernels[kernel].nodes.at(-1) !== node) return `never: kernel ${grouped(kernel + 1)} computes it and uses it`;
    const freed = trace.freedBy[node];
    const count = grouped(trace.kernels.length);
    return freed < 0 ? `from kernel ${grouped(kernel + 1)} of ${count} to the end` : `kernels ${grouped(kernel + 1)} to ${grouped(freed + 1)} of ${count}`;
  }
}
