// An operator of a model's file in the panel: its attributes and weights as the file names them.

import { facts, heading } from "./lists.js";
import { html } from "../dom.js";

/** @param {import("../data/recording.js").Trace} trace @param {number} row of the recording's operators, −1 for none @returns {Element[]} */
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

/** The row of the operator whose box is innermost around a node, −1 for none. */
export function operatorOf(trace, node) {
  const { scopes, operators = [] } = trace.recording;
  for (let scope = trace.nodes.scope[node]; scope >= 0; scope = scopes[scope].parent) {
    const row = operators.findIndex((operator) => operator.scope === scope);
    if (row >= 0) return row;
  }
  return -1;
}
