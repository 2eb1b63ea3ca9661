// Panel parts about operands: the inputs and outputs of an operator of a model's file, and the ends of a value's edges.

import { facts, heading } from "./elements.js";
import { operatorOf } from "./layer_operator.js";
import { html } from "../dom.js";

/** Return the tables of an operator's inputs and outputs; a name selects the value. @param {import("./panel_parts.js").PanelParts} parts @param {number} row of the recording's operators, −1 for none @returns {Element[]} */
export function operandParts(parts, row) {
  const { trace } = parts;
  const operator = trace.recording.operators?.[row];
  if (!operator) return [];
  /** @type {[string, import("../data/operand_names.js").Operand[]][]} */
  const tables = [["inputs", trace.operands.inputs(operator)], ["outputs", trace.operands.outputs(operator)]];
  return tables.flatMap(([title, operands]) => (operands.length ? [heading(title), facts(operands.map((operand) => [operand.formal, value(parts, operand)]))] : []));
}

/** Return the name of a value, which selects it, and its type. @param {import("./panel_parts.js").PanelParts} parts @param {import("../data/operand_names.js").Operand} operand */
function value({ trace, actions, moment }, { name, text, node }) {
  const standing = node < 0 ? -1 : trace.resolver(moment.position)[node];
  const type = text || (node < 0 ? "" : trace.typeText(trace.nodes.type[node]));
  const named = html("code", {}, name || text);
  const link = standing >= 0 && trace.slotOf[trace.origin(standing)] >= 0;
  return html("span", {}, link ? html("button", { class: "ex-link", type: "button", title: "select this value and its edges", click: () => actions.value(standing) }, named) : named, name && type && html("span", { class: "ex-soft" }, ` ${type}`));
}

/** Return how a node uses or computes a value: "as W of layer1.0.conv1", or "" outside operators of a file. @param {import("./panel_parts.js").PanelParts} parts @param {number} node @param {number} of the value @param {boolean} [isProducer] */
export function operandText({ trace, moment }, node, of, isProducer = false) {
  const row = operatorOf(trace, node);
  if (row < 0) return trace.sourceText(node);
  const operator = trace.recording.operators[row];
  const final = trace.resolver(moment.position);
  const isSame = ({ node: each }) => each >= 0 && final[each] === of;
  const formals = (isProducer ? trace.operands.outputs(operator) : trace.operands.inputs(operator)).filter(isSame).map(({ formal }) => formal);
  const path = trace.pathOf(operator.scope).join(" / ");
  return formals.length ? `as ${formals.join(" and ")} of ${path}` : path;
}
