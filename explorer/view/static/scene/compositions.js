// Known compositions: nodes that together compute a known function, such as a GELU or a softmax.

import { html } from "../dom.js";
import { heading } from "../panel/elements.js";

/** Compositions of a recording, keyed by node. */
export class Compositions {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    /** @type {Map<number, import("../types").Composition[]>} */ this.of = new Map();
    for (const row of trace.recording.compositions ?? []) {
      for (const node of row.members) this.of.set(node, [...(this.of.get(node) ?? []), row]);
    }
  }

  /** Return the names of the functions that a node is a part of, one per line. @param {number} node */
  names(node) {
    return (this.of.get(node) ?? []).map(({ name }) => name).join("\n");
  }

  /** Return a map from slots to "found" for the nodes of the selected node's compositions. @param {number} node @returns {Map<number, string>} */
  lit(node) {
    const { slotOf } = this.trace;
    const slots = (this.of.get(node) ?? []).flatMap(({ members }) => members.map((each) => slotOf[each]));
    return new Map(slots.filter((slot) => slot >= 0 && slot !== slotOf[node]).map((slot) => [slot, "found"]));
  }

  /** Return the panel's lines about a node's compositions: "found as GELU", the operand and all nodes. @param {number} node @param {import("../panel/panel_parts.js").PanelParts} parts */
  tell(node, parts) {
    return (this.of.get(node) ?? []).flatMap(({ name, node: result, operand, members }) => [
      heading(`found as ${name}`),
      html(
        "div", { class: "ex-note" }, `These ${members.length} operations compute ${name}`, ...(operand >= 0 ? [" of ", parts.link(operand)] : []),
        ...(result === node ? [", and this one gives its result."] : ["; ", parts.link(result), " gives its result."]),
      ),
      parts.list(members.filter((each) => each !== node)),
    ]);
  }
}
