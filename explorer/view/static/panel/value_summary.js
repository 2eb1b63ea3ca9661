// Summary of a value: statistics, histogram, thumbnail or elements.

import { html, svg } from "../dom.js";
import { general, grouped, written } from "../data/number_format.js";

const [WIDE, HIGH] = [132, 46];

/** @param {any} summary a row of record/rows.py's Summary @returns {HTMLElement} */
export function valueView(summary) {
  const root = html("div", { class: "ex-value" });
  if (summary.histogram.length) root.append(histogram(summary));
  if (summary.thumbnail.length) root.append(pictured(summary));
  // strings and empty arrays have no statistics
  if (summary.min !== null || summary.nan + summary.inf > 0) root.append(statistics(summary));
  // Python escapes the line breaks between rows.
  if (summary.elements) root.append(html("code", { class: "ex-elements" }, scalarText(summary) || summary.elements.replaceAll("\\n", "\n")));
  return root;
}

/** Return the value of a known scalar, "" for other values; strings are returned unchanged. @param {any} summary */
export function scalarText({ shape, min, nan, inf, elements }) {
  if (shape.length) return "";
  return min !== null || nan + inf ? written(elements) : elements;
}

function histogram({ histogram: bins, min, max }) {
  const most = bins.reduce((highest, bin) => Math.max(highest, bin), 1);
  const label = min === null || max === null ? "histogram" : `histogram from ${written(general(min))} to ${written(general(max))}`;
  const picture = svg("svg", { class: "ex-histogram", width: WIDE, height: HIGH, role: "img", "aria-label": label });
  const wide = WIDE / bins.length;
  bins.forEach((count, index) => {
    const high = count ? Math.max(1.5, (count / most) * HIGH) : 0;
    picture.append(svg("rect", { x: (index * wide).toFixed(2), y: (HIGH - high).toFixed(2), width: Math.max(1, wide - 0.8).toFixed(2), height: high.toFixed(2) }));
  });
  return picture;
}

/** Return the thumbnail, captioned with the part that it shows: the first image of a stack (explorer.run.execution.value_capture). */
function pictured({ shape, thumbnail: rows }) {
  const stack = shape.slice(0, -2);
  const part = stack.some((length) => length > 1) ? `value[${stack.map(() => 0).join(", ")}]` : "";
  return html("figure", {}, thumbnail(rows, part || "the value"), part && html("figcaption", {}, html("code", {}, part)));
}

function thumbnail(rows, part) {
  const canvas = html("canvas", { class: "ex-thumbnail", role: "img", "aria-label": `picture of ${part}, ${rows.length} rows` });
  canvas.width = rows[0].length;
  canvas.height = rows.length;
  const pixels = new ImageData(canvas.width, canvas.height);
  rows.flat().forEach((level, index) => pixels.data.set(heatColour(level / 255), 4 * index));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  const grow = Math.max(1, Math.min(96 / canvas.width, HIGH / canvas.height));
  canvas.style.width = `${Math.round(canvas.width * grow)}px`;
  canvas.style.height = `${Math.round(canvas.height * grow)}px`;
  return canvas;
}

/** Return a colour of a perceptually uniform ramp from dark blue over teal to pale yellow. */
function heatColour(share) {
  const stops = [[36, 28, 82], [45, 86, 140], [32, 140, 141], [108, 191, 108], [246, 230, 120]];
  const at = share * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  return [...stops[low].map((from, channel) => Math.round(from + (stops[low + 1][channel] - from) * (at - low))), 255];
}

function statistics(summary) {
  const number = (value) => (value === null ? "–" : written(general(value)));
  const rows = [["min", number(summary.min)], ["max", number(summary.max)], ["mean", number(summary.mean)], ["std", number(summary.std)]];
  const list = html("dl", { class: "ex-statistics" });
  for (const [name, value] of rows) list.append(html("dt", {}, name), html("dd", {}, value));
  const bad = summary.nan + summary.inf > 0;
  list.append(html("dt", { class: bad && "ex-bad" }, "NaN, inf"), html("dd", { class: bad && "ex-bad" }, `${grouped(summary.nan)}, ${grouped(summary.inf)}`));
  return list;
}
