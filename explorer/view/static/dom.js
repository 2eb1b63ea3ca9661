// DOM helpers. Data is inserted into the page only as text and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Record<string, string | number | boolean | ((event: any) => void) | undefined>} Attributes */

/** Make an HTML element. @param {string} tag @param {Attributes} [attributes] @param {...(Node | string | false | undefined)} children */
export function html(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** Make an SVG element. @param {string} tag @param {Attributes} [attributes] @param {...(Node | string | false | undefined)} children */
export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else put(element, name, value);
  }
  element.append(...children.filter((child) => child !== false && child !== undefined));
  return element;
}

/** Keep each element and the punctuation after it on one line, because lines may break after a button. @param {(Node | string)[]} parts */
export function tied(parts) {
  const [joined, last] = [[], () => joined[joined.length - 1]];
  for (const part of parts) {
    const [mark] = (typeof part === "string" && last() instanceof Element && part.match(/^[,.;:)]+/)) || [""];
    if (mark) joined.push(html("span", { class: "ex-tied" }, joined.pop(), mark), String(part).slice(mark.length));
    else joined.push(part);
  }
  return joined;
}

/** Return a name whose lines break after "/", "." and "_" and before capitals, and inside a word only if that does not suffice. @param {string} name @returns {(Node | string)[]} */
export function breakable(name) {
  return name.split(/(?<=[/._])(?=.)|(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u).flatMap((part, place) => (place ? [html("wbr"), part] : [part]));
}

/** Set or remove an attribute if its value changed. */
export function put(element, name, value) {
  if (value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Set the text of an element if it changed. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replace the children of an element; children that it already has are not moved and keep their layout. @param {Element} parent @param {(Node | string)[]} children */
export function refill(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  let next = parent.firstChild;
  for (const child of children) {
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(typeof child === "string" ? document.createTextNode(child) : child, next);
  }
}

/** Create or remove child elements so that `count` remain, and return them. @param {Element} parent @param {number} count @param {() => Element} make */
export function pool(parent, count, make) {
  while (parent.childElementCount > count) parent.lastElementChild.remove();
  while (parent.childElementCount < count) parent.append(make());
  return parent.children;
}

/** Return the focused element in the document or shadow root of an element, because a document reports only the host of a shadow root. @param {Node} element @returns {Element | null} */
export function focused(element) {
  const root = /** @type {ShadowRoot} */ (element.getRootNode());
  return root.activeElement ?? document.activeElement;
}

/** Return whether an element contains the focus. @param {Node} element */
export function hasFocus(element) {
  return element.contains(focused(element));
}

/** Whether the reader prefers reduced motion. */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Call `act` once the browser is idle, or soon if it has no idle callbacks (Safari). Return a handle for `notIdle`. @param {(hasTime: () => boolean) => void} act `hasTime` returns whether there is time for more work */
export function whenIdle(act) {
  if (!window.requestIdleCallback) return setTimeout(() => act(() => false), 50);
  return requestIdleCallback((deadline) => act(() => deadline.timeRemaining() > 4), { timeout: 300 });
}

/** Cancel a scheduled call. @param {number} handle */
export function notIdle(handle) {
  if (window.requestIdleCallback) cancelIdleCallback(handle);
  else clearTimeout(handle);
}
