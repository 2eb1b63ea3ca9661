// Links in prose that control a view: [the kernel](#explorer:stage=fuse&node=softmax). If no view is running, they do nothing.

import { HANDOVER } from "./view_address.js";
import { calm } from "../dom.js";

const PREFIX = "#explorer:";

/** Selector of views, including placeholders of views that a notebook page has not drawn yet. */
const PLACES = ".explorer-view, .book-view:not(:has(.explorer-view))";

/** Key under which a document with a listener stores its shadow roots with views, so that copies of this code in other widgets do not add a second listener. */
const LISTENS = Symbol.for("explorer.prose_links");

/** Make each link of this document control the view nearest to it, including a view in the shadow root of an element. @param {Element} [element] */
export function followLinks(element) {
  if (!document[LISTENS]) {
    document[LISTENS] = new Set();
    document.addEventListener("click", follow, true);
  }
  const root = element?.getRootNode();
  if (root instanceof ShadowRoot) document[LISTENS].add(root);
}

/** Return the document and its shadow roots with views. @returns {(Document | ShadowRoot)[]} */
function roots() {
  for (const root of document[LISTENS]) if (!root.isConnected) document[LISTENS].delete(root);
  return [document, ...document[LISTENS]];
}

/** @param {MouseEvent} event */
function follow(event) {
  const [target] = event.composedPath(); // of a shadow root, the event's own target is the host
  const link = target instanceof Element ? target.closest(`a[href^="${PREFIX}"]`) : null;
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const place = nearest(link);
  if (!place) return;
  event.preventDefault(); // a fragment in the page's own address would refer to a heading
  event.stopPropagation();
  place.dispatchEvent(new CustomEvent(HANDOVER, { detail: link.getAttribute("href").slice(PREFIX.length) }));
  place.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
}

/** Return the view above or below a link, whichever is nearer. @param {Element} link @returns {Element | undefined} */
function nearest(link) {
  const at = link.getBoundingClientRect();
  const gap = ({ top, bottom }) => (bottom < at.top ? at.top - bottom : Math.max(0, top - at.bottom));
  const found = roots().flatMap((root) => [...root.querySelectorAll(PLACES)]);
  const places = found.map((place) => ({ place, rect: place.getBoundingClientRect() }));
  const seen = places.filter(({ rect }) => rect.width > 0).map(({ place, rect }) => ({ place, far: gap(rect) }));
  return seen.reduce((best, each) => (each.far < (best?.far ?? Infinity) ? each : best), undefined)?.place;
}
