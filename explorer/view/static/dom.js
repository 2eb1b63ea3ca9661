// DOM helpers: data reaches the page as text and attributes only, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// Control characters, line separators, bidirectional overrides, lone surrogates: shown as escapes, as in escape.py.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufeff\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const NAMED = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One line of text in which nothing is hidden. @param {unknown} text */
export function visible(text) {
  return String(text).replace(HIDDEN, (found) => {
    const code = found.charCodeAt(0);
    return NAMED[found] ?? (code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0"));
  });
}

/** @typedef {Record<string, string | number | boolean | ((event: any) => void) | undefined>} Attributes */

/** Make an HTML element. @param {string} tag @param {Attributes} [attributes] @param {...(Node | string | false)} children */
export function html(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** Make an SVG element. @param {string} tag @param {Attributes} [attributes] @param {...(Node | string | false)} children */
export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else put(element, name, value);
  }
  element.append(...children.filter((child) => child !== false));
  return element;
}

/** Set an attribute, or take it away; an attribute that has its value already is left alone. */
export function put(element, name, value) {
  if (value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Set the text of an element if it is another. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Keep a list of child elements as long as needed. @param {Element} parent @param {number} count @param {() => Element} make */
export function pool(parent, count, make) {
  while (parent.childElementCount > count) parent.lastElementChild.remove();
  while (parent.childElementCount < count) parent.append(make());
  return parent.children;
}

/** Whether the reader asked for less motion. */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

let context = null;

/** The width of a text in px. @param {string} text @param {string} font a CSS font */
export function textWidth(text, font) {
  context ??= document.createElement("canvas").getContext("2d");
  context.font = font;
  return context.measureText(text).width;
}

/** The text, cut with "…" where it is wider than some px. */
export function shorten(text, limit, font) {
  if (textWidth(text, font) <= limit) return text;
  let low = 0;
  let high = Math.min(text.length, 400);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(text.slice(0, middle) + "…", font) <= limit) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
}
