// Cost tables of a box or the whole graph, and of the boxes inside.

import { explained } from "./term_tooltips.js";
import { breakable, html } from "../dom.js";
import { bytesText, counted, countText, grouped, microsText, onceText } from "../data/number_format.js";
import { boxValue, isLargest, metricText, spread, sumName } from "../data/totals.js";

const LISTED = 12;

/** Return a table of a box's costs, with their fractions of the whole graph's. @param {import("../data/totals.js").Totals} totals @param {import("../data/totals.js").Cost} cost @param {import("../data/totals.js").Cost} whole @param {string[]} known rows that are shown elsewhere @param {string} place where the work is done, if not here @param {boolean} isAhead whether the times are those of a later stage, the final plan */
export function costTable(totals, cost, whole, known = [], place = "", isAhead = false) {
  const share = (name) => (whole !== cost && whole[name] ? ` · ${percent(cost[name] / whole[name])}` : "");
  const rows = [
    ["nodes", grouped(cost.nodes)],
    ["operations", grouped(cost.operations)],
    ["parameters", cost.parameters && `${grouped(cost.parameters)} · ${bytesText(cost.weights)}${share("parameters")}`],
    ["inputs, constants", cost.others && counted(cost.others, "element")],
  ];
  const value = (metric) => {
    const text = `${amount(metric, boxValue(metric, cost))}${metric.per || isLargest(metric) ? "" : share(sumName(metric))}${spreadText(metric, cost)}`;
    if (metric.values || metric.name !== "time") return text;
    if (!place) return cost.time || !cost.once ? text : "";
    return cost.time ? `${text} · ${place}` : place;
  };
  const later = (metric) => (isAhead && !metric.values && metric.name === "time" ? " in the final plan" : "");
  for (const metric of totals.inOrderOfCosts()) {
    rows.push([(metric.row || totals.heading(metric)) + later(metric), value(metric)]);
    if (metric.name === "time" && cost.once) rows.push(["once, before the first run", microsText(cost.once)]);
  }
  const table = html("dl", { class: "ex-facts ex-costs" });
  const terms = new Set();
  for (const [name, value] of rows) if (value && !known.includes(name)) table.append(html("dt", {}, ...explained(name, terms)), html("dd", {}, value));
  return table;
}

/** Return a table of the costliest boxes inside a box, the costliest first, or inside a whole graph in program order. @param {import("../data/trace.js").Trace} trace @param {import("../data/totals.js").Cost[]} costs @param {number} box @param {import("../data/totals.js").Totals} totals @param {(box: number) => void} select @param {(box: number) => string} result returns the shape of a box's result @param {boolean} isTimed whether the times belong to the program shown */
export function insideTable(trace, costs, box, totals, select, result, isTimed = true) {
  const inner = trace.layout.boxes[box].items.flatMap((item) => (item.box === undefined || !costs[item.box].nodes ? [] : [item.box]));
  if (!inner.length) return null;
  const metrics = totals.metrics.filter(({ name, values }) => !values && (isTimed || name !== "time"));
  const metric = metrics.find((each) => costs[box][sumName(each)]) ?? metrics.at(-1);
  const measure = sumName(metric);
  const place = new Map(inner.map((index, at) => [index, at]));
  // Costs that differ by less than a reader would notice are equal.
  const cost = (index) => Number(costs[index][measure].toPrecision(2));
  inner.sort((a, b) => cost(b) - cost(a) || place.get(a) - place.get(b));
  const head = html("tr", {}, ...[["inside"], ["parameters"], explained(totals.heading(metric)), [html("span", { class: "ex-heard" }, "share")]].map((name) => html("th", { scope: "col" }, ...name)));
  const most = inner.reduce((largest, index) => Math.max(largest, costs[index][measure]), 0);
  const isWhole = trace.layout.boxes[box].parent < 0;
  const shown = inner.slice(0, LISTED).sort((a, b) => (isWhole ? place.get(a) - place.get(b) : 0));
  const { boxes } = trace.layout;
  const titled = new Map();
  for (const index of shown) titled.set(boxes[index].text[0], (titled.get(boxes[index].text[0]) ?? 0) + 1);
  const rows = shown.map((index) => {
    const { label, text: [title] } = boxes[index];
    const link = html("button", { type: "button", class: "ex-link", "data-box": index, click: () => select(index) }, ...breakable(title));
    // Operators of one type have equal titles if an exporter generated their names.
    const name = titled.get(title) > 1 && label !== title && html("div", { class: "ex-soft" }, ...breakable(label));
    const share = (whole) => (whole ? costs[index][measure] / whole : 0);
    const bar = html("span", { class: "ex-bar", style: `width:${Math.round(share(most) * 34)}px`, title: percent(share(costs[box][measure])) });
    const shape = result(index);
    const done = measure === "time" ? elsewhere(trace, costs, totals, index) : "";
    const { time, once } = costs[index];
    const value = measure === "time" && !time && (done || once) ? "–" : amount(metric, costs[index][measure]);
    const before = measure === "time" && once > 0 && html("div", { class: "ex-soft" }, `and ${onceText(once)}`);
    const cells = [costs[index].parameters ? countText(costs[index].parameters) : "–", value];
    const soft = [name, shape && html("div", { class: "ex-soft" }, `→ ${shape}`), done && html("div", { class: "ex-soft ex-elsewhere", title: done }, done), before];
    return html("tr", {}, html("th", { scope: "row" }, link, ...soft), ...cells.map((cell) => html("td", {}, cell)), html("td", {}, bar));
  });
  const rest = inner.length > LISTED && html("div", { class: "ex-soft" }, `${grouped(LISTED)} of ${grouped(inner.length)} shown`);
  return html("div", {}, html("table", { class: "ex-inside" }, html("thead", {}, head), html("tbody", {}, ...rows)), rest);
}

/** Where the work of a box is done, "computed in conv"; "" if it does its work itself. @param {import("../data/trace.js").Trace} trace @param {import("../data/totals.js").Cost[]} costs @param {import("../data/totals.js").Totals} totals @param {number} box */
export function elsewhere(trace, costs, totals, box) {
  const worker = totals.workerOf(box);
  if (worker < 0) return "";
  const { boxes } = trace.layout;
  const around = new Set();
  for (let outer = boxes[box].parent; outer >= 0; outer = boxes[outer].parent) around.add(outer);
  // Name the box that contains the node, next to this box or to a box around it; without such a box, name the node.
  let place = trace.boxOf[trace.slotOf[worker]] ?? -1;
  while (place >= 0 && !around.has(place) && boxes[place].parent >= 0 && !around.has(boxes[place].parent)) place = boxes[place].parent;
  const name = place < 0 || around.has(place) ? trace.label(worker) : boxes[place].label;
  return `${costs[box].time || costs[box].once ? "partly " : ""}computed in ${name}`;
}

/** The mean and the maximum of an added metric over the nodes of a box, without the one that is its value already. */
function spreadText(metric, cost) {
  const found = metric.values && spread(metric, cost);
  if (!found) return "";
  const mean = metric.per ? "" : ` · mean ${amount(metric, found.mean)}`;
  return isLargest(metric) ? mean : `${mean} · max ${amount(metric, found.most)}`;
}

/** Format a metric's number for a column with its name, without repeating the name as the unit. */
function amount(metric, value) {
  return metricText(metric.unit === metric.name ? { ...metric, unit: "" } : metric, value);
}

/** Format a fraction, "3.5 %". @param {number} share */
export function percent(share) {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}
