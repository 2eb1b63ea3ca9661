// Handing the choices of a reader to another view of the same recording, which may come from another copy of this code.

import { addressOf, restore } from "./page_address.js";

/** The event that takes a view to an address, on its root. */
export const HANDOVER = "explorer-handover";

/**
 * Let the view in an element go where a reader is in another one, unless he is still at its start.
 * @param {import("../view.js").View} view @param {string} start address of the view when it was drawn @param {HTMLElement} element
 */
export function handOver(view, start, element) {
  const address = addressOf(view);
  const root = element.querySelector(".explorer-view");
  if (address !== start) root.dispatchEvent(new CustomEvent(HANDOVER, { detail: address }));
  if (!view.root.contains(document.activeElement)) return;
  /** @type {HTMLElement | null} */ (root.querySelector("[data-key][tabindex='0']"))?.focus({ preventScroll: true });
}

/** Let a view go where another one leaves a reader, or a link in prose leads. @param {import("../view.js").View} view */
export function takeOver(view) {
  view.root.addEventListener(HANDOVER, (/** @type {CustomEvent<string>} */ { detail }) => restore(view, new URLSearchParams(detail)));
}
