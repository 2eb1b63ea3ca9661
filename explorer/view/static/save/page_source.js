// The source of the page itself, so that a page can be saved from within.

/** @type {DocumentFragment | undefined} the part of a page for readers without JavaScript */
let fallback;

/** Remove the part of a page for readers without JavaScript, but keep it for the page source. @param {HTMLElement} element */
export function takeFallback(element) {
  fallback = document.createDocumentFragment();
  fallback.append(...element.childNodes);
}

/** Whether the view is in its own exported page, whose source can be saved. */
export function isOwnPage() {
  return fallback !== undefined;
}

/** Return the page's source, which opens at the reader's current state. */
export function pageSource() {
  const copy = /** @type {HTMLElement} */ (document.documentElement.cloneNode(true));
  copy.querySelector("#explorer").replaceChildren(fallback.cloneNode(true));
  const held = copy.querySelector("#explorer-data");
  const data = JSON.parse(held.textContent);
  if (data.options) data.options.start = location.hash.slice(1);
  held.textContent = JSON.stringify(data).replace(/[<>&\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `<!doctype html>\n${copy.outerHTML}`;
}
