// Panel parts of layers (ports, clauses, order, policies, gradients) and of operators of a model's file (attributes, weights).

import { facts, heading } from "./elements.js";
import { html } from "../dom.js";

/** @param {import("../data/trace.js").Trace} trace @param {number} row of the recording's layers, −1 for none @returns {Element[]} */
export function layerParts(trace, row) {
  const layer = trace.recording.layers?.[row];
  if (!layer) return [];
  const parts = [heading("layer"), facts([["name", layer.name], ["class", layer.type], ["ports", layer.ports], ["built for", layer.use]], "ex-layer-facts")];
  if (layer.order) parts.push(heading("topological order"), html("div", { class: "ex-order" }, layer.order));
  if (layer.clauses.length) parts.push(heading("topology"), html("ul", { class: "ex-clauses" }, ...layer.clauses.map((clause) => html("li", {}, html("code", {}, clause)))));
  if (layer.policies.length) {
    const rows = layer.policies.map(([text, by]) => html("li", {}, html("code", {}, text), html("span", { class: "ex-soft" }, ` ${by}`)));
    parts.push(heading("policies"), html("ul", { class: "ex-policies" }, ...rows));
  }
  if (layer.feedback.length) parts.push(heading("gradients"), html("ul", { class: "ex-feedback" }, ...layer.feedback.map(feedback)));
  return parts;
}

/** Return the row of the innermost layer around a node, −1 for none. */
export function layerOf(trace, node) {
  const { layers = [] } = trace.recording;
  return innermost(trace, node, layers, (layer, scope) => layer.scopes.includes(scope));
}

/** Return a list item on the decision about one gradient. */
function feedback([built, text]) {
  return html("li", { class: built ? "ex-built" : "ex-unbuilt" }, html("b", {}, built ? "✓ " : "✗ "), text);
}

/** @param {import("../data/trace.js").Trace} trace @param {number} row of the recording's operators, −1 for none @returns {Element[]} */
export function operatorParts(trace, row) {
  const operator = trace.recording.operators?.[row];
  if (!operator) return [];
  const parts = operator.doc ? [html("div", { class: "ex-note" }, operator.doc)] : [];
  /** @type {[string, [string, string][]][]} */
  const tables = [["attributes", operator.attributes], ["weights", operator.weights]];
  for (const [title, rows] of tables) {
    if (rows.length) parts.push(heading(title), facts(rows.map(([name, text]) => [name, html("code", {}, text)])));
  }
  return parts;
}

/** Return the row of the innermost operator around a node, −1 for none. */
export function operatorOf(trace, node) {
  const { operators = [] } = trace.recording;
  return innermost(trace, node, operators, (operator, scope) => operator.scope === scope);
}

function innermost(trace, node, rows, isOf) {
  const { scopes } = trace.recording;
  for (let scope = trace.nodes.scope[node]; scope >= 0; scope = scopes[scope].parent) {
    const row = rows.findIndex((each) => isOf(each, scope));
    if (row >= 0) return row;
  }
  return -1;
}
