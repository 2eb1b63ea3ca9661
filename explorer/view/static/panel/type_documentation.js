// The whole documentation of an operator type, collapsed. Its texts may come from anywhere, and are inserted only as text.

import { html } from "../dom.js";

/** @typedef {import("../types").Block} Block @typedef {import("../types").DocumentedTable} Documented */

const LONG = 90;

/** Return the description of a type, and its inputs, outputs, attributes and type constraints. @param {import("../types").OperatorTypeTable} type */
export function typeDocumentation(type) {
  const { inputs, outputs, attributes, constraints } = type;
  const tables = [table("inputs", inputs), table("outputs", outputs), table("attributes", attributes), table("types", constraints)];
  return html("details", { class: "ex-explained ex-documentation" }, html("summary", {}, "Documentation"), ...blocks(type.description), ...tables.flat());
}

/** @param {string} title @param {Documented[]} rows */
function table(title, rows) {
  if (!rows.length) return [];
  const list = html("dl");
  for (const row of rows) {
    const fallback = row.default !== "" && [" = ", html("code", {}, row.default)];
    list.append(html("dt", {}, html("code", {}, row.name), row.type !== "" && ": ", row.type !== "" && html("code", {}, row.type), ...(fallback || []), row.note !== "" && ` ${row.note}`));
    list.append(html("dd", {}, ...blocks(row.meaning)));
  }
  return [html("h6", { "aria-level": 4 }, title), list];
}

/** Return paragraphs, lists and code. @param {Block[]} found @returns {Element[]} */
function blocks(found) {
  /** @type {Element[]} */ const parts = [];
  /** @type {Element | undefined} */ let list;
  for (const { kind, depth, mark, parts: words } of found) {
    const element = kind === "code" ? code(words.map(String)) : html(kind === "item" ? "li" : "p", {}, ...words.map(inline));
    if (depth === 0) {
      list = undefined;
      parts.push(element);
    } else if (kind === "item") {
      if (!list) parts.push((list = html("ul")));
      element.setAttribute("data-depth", String(depth));
      element.setAttribute("data-mark", mark || "•");
      list.append(element);
    } else list.lastElementChild.append(element);
  }
  return parts;
}

/** Return code. Its lines are wrapped if they are too long for a table or a diagram, and otherwise can be scrolled with the keyboard. @param {string[]} lines */
function code(lines) {
  return html("pre", { tabindex: lines.some((line) => line.length > LONG) ? undefined : 0 }, lines.join("\n"));
}

/** @param {Block["parts"][number]} part */
function inline(part) {
  if (typeof part === "string") return part;
  if ("code" in part) return html("code", {}, part.code);
  if ("strong" in part) return html("b", {}, part.strong);
  // model/marked_text.py accepts only addresses of pages.
  return html("a", { class: "ex-link", href: part.url, target: "_blank", rel: "noopener noreferrer" }, part.link);
}
