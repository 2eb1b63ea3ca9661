// Panel parts of layers (ports, clauses, order, policies, gradients) and of operators of a model's file (type, attributes, weights, metadata).

import { facts, fitting, heading, LISTED } from "./elements.js";
import { grouped } from "../data/number_format.js";
import { html } from "../dom.js";
import { typeDocumentation } from "./type_documentation.js";

/** Maximum length of a name that is next to its value; a longer one, such as a key of an exporter's metadata, is above it. */
const SHORT_NAME = 20;

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

/** Return the documentation of an operator's type, and the description of the operator. @param {import("../data/trace.js").Trace} trace @param {number} row of the recording's operators, −1 for none @param {import("./elements.js").KeptParts} kept @returns {Element[]} */
export function typeParts(trace, row, kept) {
  const { operators = [], operator_types: types = [] } = trace.recording;
  const operator = operators[row];
  if (!operator) return [];
  const type = types[operator.documentation];
  const parts = type ? [heading("operator"), ...documentation(type, () => kept.part(`type|${operator.documentation}`, () => typeDocumentation(type)))] : [];
  if (operator.doc) parts.push(html("div", { class: "ex-note" }, operator.doc));
  return parts;
}

/** Return the attributes of an operator, also those that the file omits, and what the file states about the operator. @param {import("../data/trace.js").Trace} trace @param {number} row of the recording's operators, −1 for none @returns {Element[]} */
export function operatorParts(trace, row) {
  const { operators = [], operator_types: types = [] } = trace.recording;
  const operator = operators[row];
  if (!operator) return [];
  // Recordings saved by older versions have no implied attributes, types and statements.
  const { implied = [], stated = [], documentation = -1 } = operator;
  const known = new Set([...operator.attributes, ...operator.weights].map(([name]) => name));
  const omitted = (types[documentation]?.attributes ?? []).filter((each) => each.default && !known.has(each.name));
  /** @type {[string, Element][]} */
  const rows = [...trace.operands.attributes(operator).map(([name, text]) => /** @type {[string, Element]} */ ([name, value(text, implied.includes(name))])), ...omitted.map((each) => /** @type {[string, Element]} */ ([each.name, value(each.default, true)]))];
  const parts = rows.length ? [heading("attributes"), facts(rows)] : [];
  if (stated.length) parts.push(...statedParts(stated.map(([name, text]) => [name, [text]])));
  return parts;
}

/** Return the value of an attribute; a default is marked. @param {string} text @param {boolean} isDefault */
function value(text, isDefault) {
  return html("span", {}, html("code", {}, text), isDefault && html("span", { class: "ex-soft" }, " default"));
}

/** Return the operator set, the summary, a link to the documentation and the whole documentation of a type. @param {import("../types").OperatorTypeTable} type @param {() => Element} whole @returns {Element[]} */
function documentation(type, whole) {
  const link = type.url !== "" && html("a", { class: "ex-link", href: type.url, target: "_blank", rel: "noopener noreferrer" }, `documentation on ${new URL(type.url).host}`);
  const parts = [html("div", { class: "ex-sub" }, html("code", {}, type.name), ` of ${type.origin}`)];
  if (type.summary || link) parts.push(html("div", { class: "ex-type" }, type.summary, type.summary && link && html("br"), link));
  if ([type.description, type.inputs, type.outputs, type.attributes].some((rows) => rows.length)) parts.push(whole());
  return parts;
}

/** Return what a model file states. Its words are not explained as terms. @param {[string, string[]][]} rows names, and the lines of their values @returns {Element[]} */
export function statedParts(rows) {
  const table = html("dl", { class: "ex-facts ex-metadata" });
  const [shown, left] = fitting(rows, LISTED);
  for (const [name, lines] of shown) table.append(html("dt", { class: name.length > SHORT_NAME && "ex-above" }, name), html("dd", {}, ...lines.map((line) => html("div", {}, line))));
  return [heading("what the file states"), table, ...(left ? [html("div", { class: "ex-soft" }, `and ${grouped(left)} more`)] : [])];
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
