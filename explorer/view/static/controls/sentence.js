// The sentence over the canvas: the present moment, and the reason of its decision.

import { saying } from "./toolbar.js";
import { html, put } from "../dom.js";

/** px of a line, and of the room above and below all lines. */
const [LINE, AROUND] = [18.2, 12];
/** px that the longest sentences of plans have on one line. */
const LONG = 2000;
/** The part of a view's height that a sentence takes at most; a longer one is scrolled. */
const MOST = 0.25;

/** Says moments, in room for long sentences at the present width, and for the longest one so far: the canvas below does not move to and fro. */
export class Sentence {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.text = html("p");
    this.said = html("div", { class: "ex-say", role: "status", "aria-live": "polite" }, this.text);
    this.root = html("div", { class: "ex-saying" }, this.said);
    this.room = { width: 0, height: 0 };
    // An observer is told after the layout of the page: to ask for sizes here costs no layout of its own.
    this.resized = new ResizeObserver(() => this.#makeRoom());
    this.resized.observe(this.text);
  }

  #makeRoom() {
    const { text, room, view } = this;
    const most = Math.floor(view.root.clientHeight * MOST);
    const [width, needed] = [text.offsetWidth, text.offsetHeight];
    const usual = Math.ceil(AROUND + LINE * Math.ceil(LONG / width));
    const height = Math.min(most, Math.max(needed, width === room.width ? room.height : usual));
    this.room = { width, height };
    this.root.style.setProperty("--ex-said", `${height}px`);
    put(this.said, "tabindex", needed > height && 0);
  }

  /** Say a moment. @param {import("../data/timeline.js").Moment} moment @param {import("../panel/panel_parts.js").PanelParts} parts @returns {string} it as plain text */
  show(moment, parts) {
    const { trace, timeline, prediction } = this.view;
    const { place, verdict, fragments } = prediction.isOn ? prediction.saying() : saying(trace, timeline, moment, parts.summary);
    const name = timeline.stages[moment.stage]?.name ?? "";
    const mark = verdict && html("span", { class: `ex-verdict ex-mark-${verdict}` }, verdict === "applied" ? "✓ applied" : "✗ declined");
    const words = parts.decisionCard.words(fragments);
    const head = [html("b", {}, name), " ", html("span", { class: "ex-soft" }, place), " ", ...(mark ? [mark, " "] : [])];
    this.text.replaceChildren(...head, html("span", { class: "ex-sentence" }, ...words));
    return `${name} ${place}: ${fragments.map(({ text }) => text).join("")}`;
  }

  /** A screen reader is not told every step of a play. @param {boolean} playing */
  playing(playing) {
    put(this.said, "aria-live", playing ? "off" : "polite");
  }

  /** Watch nothing any more. */
  end() {
    this.resized.disconnect();
  }
}
