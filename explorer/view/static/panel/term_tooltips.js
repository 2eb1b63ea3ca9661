// Terms of the planner, explained where they stand: on hover, and with the keyboard on focus.

import { html } from "../dom.js";

/* global GLOSSARY */
/** Each form of each term → its explanation. */
const TERMS = new Map(Object.entries(GLOSSARY).flatMap(([text, forms]) => forms.map((form) => [form, text])));
const TERM = new RegExp(`(?<![\\p{L}\\p{N}_-])(${[...TERMS.keys()].sort((a, b) => b.length - a.length).join("|")})(?![\\p{L}\\p{N}_-])`, "u");

/** Text → its parts, every second one a term: planners say the same texts again and again. @type {Map<string, string[]>} */
const SPLITS = new Map();
/** Texts that are remembered at most. */
const REMEMBERED = 2000;

/** The parts of a text, every second one a term. @param {string} text */
function split(text) {
  let parts = SPLITS.get(text);
  if (!parts) {
    if (SPLITS.size >= REMEMBERED) SPLITS.clear();
    SPLITS.set(text, (parts = text.split(TERM)));
  }
  return parts;
}

/** A text in which the first occurrence of each term is explained. @param {string} text @param {Set<string>} [known] terms that are explained already @returns {(Node | string)[]} */
export function explained(text, known = new Set()) {
  return split(text).map((part, place) => {
    if (place % 2 === 0 || known.has(TERMS.get(part))) return part;
    known.add(TERMS.get(part));
    return html("dfn", { class: "ex-term", tabindex: 0, "aria-label": TERMS.get(part), mouseenter: tell, focus: tell, mouseleave: forget, blur: forget }, part);
  });
}

/** The terms of a text that are explained where some are known, which are known from now on. @param {string} text @param {Set<string>} known @returns {string[]} */
export function learned(text, known) {
  const terms = split(text).filter((part, place) => place % 2 && !known.has(TERMS.get(part)));
  for (const term of terms) known.add(TERMS.get(term));
  return terms;
}

/** The meanings of the terms of a text, a line for each; "" without terms. @param {string} text */
export function meanings(text) {
  return [...new Set(split(text).filter((_, place) => place % 2).map((form) => TERMS.get(form)))].join("\n");
}

/** px that an explanation is wide and, at most, high. */
const [WIDE, HIGH] = [250, 90];

/** Show the meaning of a term, over everything else in its view. */
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

/** Take an explanation away. @param {Element | null} root */
export function forgetIn(root) {
  root?.querySelector(".ex-tip")?.remove();
}
