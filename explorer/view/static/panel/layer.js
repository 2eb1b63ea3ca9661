// Layers in the panel: ports, clauses, topological order, policies and their origin, gradients and their reasons.

import { html, visible } from "../dom.js";

/** @param {import("../data/recording.js").Trace} trace @param {number} row of the recording's layers, −1 for none @returns {Element[]} */
export function layerParts(trace, row) {
  const layer = trace.recording.layers?.[row];
  if (!layer) return [];
  const ports = `${layer.inputs.join(", ") || "none"} → ${layer.outputs.join(", ") || "none"}`;
  const parts = [heading("layer"), facts([["name", layer.name], ["class", layer.type], ["ports", ports], ["built for", layer.training ? "training" : "inference"]], "ex-layer-facts")];
  if (layer.order.length) parts.push(heading("topological order"), html("div", { class: "ex-order" }, visible(layer.order.join(" → "))));
  if (layer.clauses.length) parts.push(heading("topology"), html("ul", { class: "ex-clauses" }, ...layer.clauses.map((clause) => html("li", {}, html("code", {}, visible(clause))))));
  if (layer.policies.length) {
    const rows = layer.policies.map(({ name, value, by }) => html("li", {}, html("code", {}, visible(`${name} = ${value}`)), html("span", { class: "ex-soft" }, ` ${visible(by)}`)));
    parts.push(heading("policies"), html("ul", { class: "ex-policies" }, ...rows));
  }
  if (layer.feedback.length) parts.push(heading("gradients"), html("ul", { class: "ex-feedback" }, ...layer.feedback.map(feedback)));
  return parts;
}

/** The row of the layer whose box is innermost around a node, −1 for none. */
export function layerOf(trace, node) {
  const { scopes, layers = [] } = trace.recording;
  for (let scope = trace.nodes.scope[node]; scope >= 0; scope = scopes[scope].parent) {
    const row = layers.findIndex((layer) => layer.scopes.includes(scope));
    if (row >= 0) return row;
  }
  return -1;
}

/** The decision about one gradient; record/layer_rows.py has the same text. */
function feedback({ of, built, reason }) {
  const said = !of ? `its gradient is ${built ? "" : "not "}built: ${reason}` : `${of} feeds ${built ? "" : "nothing "}back: ${reason}`;
  return html("li", { class: built ? "ex-built" : "ex-unbuilt" }, html("b", {}, built ? "✓ " : "✗ "), visible(said));
}

function facts(rows, name) {
  const table = html("dl", { class: `ex-facts ${name}` });
  for (const [title, value] of rows) table.append(html("dt", {}, title), html("dd", {}, visible(value)));
  return table;
}

const heading = (text) => html("h5", {}, text);
