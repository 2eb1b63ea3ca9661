// Lists of the panel: their headings, and how much of a long one is shown.

import { html } from "./dom.js";
import { grouped } from "./reason.js";

/** Rows of a list at most. */
export const LISTED = 40;

export const heading = (text) => html("h5", {}, text);

/** What a list that is cut says. @param {number} count */
export const rest = (count) => count > LISTED && html("div", { class: "ex-soft" }, `${grouped(LISTED)} of ${grouped(count)} shown`);
