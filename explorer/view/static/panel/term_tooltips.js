// Explanations of planner terms in tooltips, on hover or keyboard focus.

import { html } from "../dom.js";

/* global GLOSSARY */
/** Form of a term → explanation. */
const TERMS = new Map(Object.entries(GLOSSARY).flatMap(([text, forms]) => forms.map((form) => [form, text])));
const TERM = new RegExp(`(?<![\\p{L}\\p{N}_-])(${[...TERMS.keys()].sort((a, b) => b.length - a.length).join("|")})(?![\\p{L}\\p{N}_-])`, "u");

/** String → its parts, every second one a term; a cache, because planners repeat strings. @type {Map<string, string[]>} */
const SPLITS = new Map();
/** Maximum number of cached strings. */
const REMEMBERED = 2000;

/** Split a string into parts, every second one a term. @param {string} text */
function split(text) {
  let parts = SPLITS.get(text);
  if (!parts) {
    if (SPLITS.size >= REMEMBERED) SPLITS.clear();
    SPLITS.set(text, (parts = text.split(TERM)));
  }
  return parts;
}

/** Return a string with the first occurrence of each term explained. @param {string} text @param {Set<string>} [known] terms that are explained already; extended @returns {(Node | string)[]} */
export function explained(text, known = new Set()) {
  return split(text).map((part, place) => {
    if (place % 2 === 0 || known.has(TERMS.get(part))) return part;
    known.add(TERMS.get(part));
    return html("dfn", { class: "ex-term", tabindex: 0, "aria-label": TERMS.get(part), mouseenter: tell, focus: tell, mouseleave: forget, blur: forget }, part);
  });
}

/** Return the terms of a string that are not in `known`, and add them to it. @param {string} text @param {Set<string>} known @returns {string[]} */
export function learned(text, known) {
  const terms = split(text).filter((part, place) => place % 2 && !known.has(TERMS.get(part)));
  for (const term of terms) known.add(TERMS.get(term));
  return terms;
}

/** Return the meanings of a string's terms, one per line; "" without terms. @param {string} text */
export function meanings(text) {
  return [...new Set(split(text).filter((_, place) => place % 2).map((form) => TERMS.get(form)))].join("\n");
}

/** Width and maximum height of a tooltip in px. */
const [WIDE, HIGH] = [250, 90];

/** Show the meaning of a term above everything else in its view. */
function tell({ currentTarget: term }) {
  const root = term.closest(".explorer-view");
  forgetIn(root);
  const [place, around] = [term.getBoundingClientRect(), root.getBoundingClientRect()];
  const left = Math.max(4, Math.min(place.left - around.left, around.width - WIDE - 8));
  const below = place.bottom - around.top + 4;
  const vertical = below + HIGH < around.height ? `top:${below}px` : `bottom:${around.bottom - place.top + 4}px`;
  root.append(html("div", { class: "ex-tip", role: "tooltip", style: `left:${left}px;width:${WIDE}px;${vertical}` }, term.getAttribute("aria-label")));
}

function forget({ currentTarget: term }) {
  forgetIn(term.closest(".explorer-view"));
}

/** Remove a tooltip. @param {Element | null} root */
export function forgetIn(root) {
  root?.querySelector(".ex-tip")?.remove();
}
