// Table of the kernels that take the most time.

import { explained } from "./term_tooltips.js";
import { percent } from "./cost_table.js";
import { counted, grouped, microsText } from "../data/number_format.js";
import { html } from "../dom.js";

/** Maximum numbers of listed kernels, and of names in a row. */
const [LISTED, NAMED] = [5, 4];

/** Return the heading and table of the slowest kernels, with their share of all kernels' time; empty for fewer than two kernels or without times. @param {import("../data/trace.js").Trace} trace @param {string} clock "measured" or "estimated" @param {(kernel: number) => void} select */
export function slowestKernels(trace, clock, select) {
  let known = orders.get(trace);
  if (!known) orders.set(trace, (known = inOrder(trace)));
  const { ordered, whole } = known;
  if (ordered.length < 2 || !whole) return [];
  const most = ordered[0][1];
  const rows = ordered.slice(0, LISTED).map(([kernel, time]) => {
    const link = html("button", { type: "button", class: "ex-link", "data-kernel": kernel, click: () => select(kernel) }, kernelName(trace, kernel));
    const bar = html("span", { class: "ex-bar", style: `width:${Math.round((34 * time) / most)}px` });
    const place = kernelPlace(trace, kernel);
    return html("tr", {}, html("th", { scope: "row" }, link, place && html("div", { class: "ex-soft" }, place)), html("td", {}, microsText(time)), html("td", {}, percent(time / whole)), html("td", {}, bar));
  });
  const head = html("tr", {}, ...[["kernel"], ["time"], ["share"], [html("span", { class: "ex-heard" }, "bar")]].map((name) => html("th", { scope: "col" }, ...name)));
  const left = ordered.length - rows.length;
  const rest = left > 0 && html("div", { class: "ex-soft" }, `and ${grouped(left)} more`);
  const once = trace.once.size && trace.onceOf.reduce((sum, time) => sum + time, 0);
  const before = once > 0 && html("div", { class: "ex-soft" }, `and ${microsText(once)} once, before the first run, in ${counted(trace.once.size, "kernel")}`);
  return [html("h5", { "aria-level": 3 }, ...explained(`slowest kernels, ${clock}`)), html("table", { class: "ex-inside ex-slowest" }, html("thead", {}, head), html("tbody", {}, ...rows)), rest, before];
}

/** @type {WeakMap<import("../data/trace.js").Trace, {ordered: [number, number][], whole: number}>} the kernels of each trace, which sorting 10,000 kernels at each visit of a stage would delay */
const orders = new WeakMap();

/** Return [kernel, µs] from the slowest kernel to the fastest, and the sum. @param {import("../data/trace.js").Trace} trace */
function inOrder(trace) {
  /** @type {Map<number, number>} */ const micros = new Map();
  for (const [kernel, time] of trace.clocked) micros.set(kernel, (micros.get(kernel) ?? 0) + time);
  const ordered = [...micros].sort(([one, time], [other, most]) => most - time || one - other);
  return { ordered, whole: ordered.reduce((sum, [, time]) => sum + time, 0) };
}

/** Return the operations of a kernel, "conv2d · add · relu". @param {import("../data/trace.js").Trace} trace @param {number} kernel */
function kernelName(trace, kernel) {
  const names = trace.kernels[kernel].nodes.map(trace.label);
  return [...names.slice(0, NAMED), ...(names.length > NAMED ? ["…"] : [])].join(" · ");
}

/** Return the scope of a kernel's costliest operation, else the line that recorded its result. @param {import("../data/trace.js").Trace} trace @param {number} kernel */
function kernelPlace(trace, kernel) {
  const { nodes } = trace.kernels[kernel];
  const { flops } = trace.nodes;
  const main = nodes.reduce((best, node) => (flops[node] > flops[best] ? node : best));
  return trace.scopePath(main).join(" / ") || trace.sourceText(nodes.at(-1));
}
