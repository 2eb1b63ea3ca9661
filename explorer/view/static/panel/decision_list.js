// The decisions of a stage, or of the whole plan: listed around the present one, filtered by verdict and by words.

import { html, put, say } from "../dom.js";
import { Query, fold } from "../data/query.js";
import { grouped } from "../data/number_format.js";

const LISTED = 40;
const VERDICTS = [["", "all"], ["applied", "✓ applied"], ["declined", "✗ declined"]];

/** One list with its filter, kept from step to step. */
export class Decisions {
  /** @param {import("../data/recording.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {(step: number) => void} go */
  constructor(trace, timeline, go) {
    Object.assign(this, { trace, timeline, go });
    this.verdict = "";
    this.title = html("h5");
    this.field = html("input", { type: "search", placeholder: "filter decisions …", "aria-label": "filter decisions", input: () => this.#list() });
    this.buttons = VERDICTS.map(([verdict, text]) => html("button", { type: "button", "data-verdict": verdict, click: () => this.#choose(verdict) }, text));
    this.rows = html("ol", { class: "ex-decisions" });
    this.rest = html("div", { class: "ex-soft", role: "status" });
    this.root = html("section", { "aria-label": "decisions" }, this.title, html("div", { class: "ex-filter" }, this.field, html("div", { role: "group", "aria-label": "verdict" }, ...this.buttons)), this.rows, this.rest);
    this.#mark();
  }

  /** @param {import("../data/timeline.js").Moment} moment @returns {Element | false} nothing where there are no two decisions */
  show(moment) {
    const stage = this.timeline.stages[moment.stage];
    const own = stage.kind === "rewrite" || stage.last > stage.first;
    [this.first, this.last] = own ? [stage.first, stage.last] : [0, this.trace.decisions.length];
    this.moment = moment;
    if (this.last - this.first < 2) return false;
    let applied = 0;
    for (let index = this.first; index < this.last; index++) applied += this.trace.decisions[index].verdict === "applied" ? 1 : 0;
    say(this.title, `${own ? stage.name : "the whole plan"}: ${grouped(applied)} applied, ${grouped(this.last - this.first - applied)} declined`);
    this.#list();
    return this.root;
  }

  #choose(verdict) {
    this.verdict = verdict;
    this.#mark();
    this.#list();
  }

  #mark() {
    for (const button of this.buttons) put(button, "aria-pressed", String(button.dataset.verdict === this.verdict));
  }

  #list() {
    const query = new Query(this.field.value);
    const found = [];
    for (let index = this.first; index < this.last; index++) {
      const { verdict, rule, code } = this.trace.decisions[index];
      if (this.verdict && verdict !== this.verdict) continue;
      if (query.isEmpty || query.matchesText(fold(`${rule}\n${code}\n${this.trace.plainSentence(index)}`))) found.push(index);
    }
    // A plan has thousands of decisions: rows are made for those around the present one only.
    const near = found.findIndex((index) => index >= this.moment.decision);
    const from = Math.max(0, Math.min((near < 0 ? 0 : near) - LISTED / 2, found.length - LISTED));
    this.rows.replaceChildren(...found.slice(from, from + LISTED).map((index) => this.row(index, this.moment)));
    say(this.rest, found.length === 0 ? "no decision matches" : found.length > LISTED ? `${grouped(LISTED)} of ${grouped(found.length)} shown` : "");
  }

  /** One decision as a row; a click goes to it. @param {number} index @param {import("../data/timeline.js").Moment} moment */
  row(index, moment) {
    const { verdict } = this.trace.decisions[index];
    const text = this.trace.plainSentence(index);
    const mark = html("span", { class: `ex-mark ex-mark-${verdict}`, "aria-label": verdict }, verdict === "applied" ? "✓" : "✗");
    const button = html("button", { type: "button", click: () => this.go(this.timeline.afterDecision(index)), title: text }, mark, html("span", {}, text));
    put(button, "aria-current", index === moment.decision && "step");
    return html("li", { class: index === moment.decision ? "ex-now" : index < moment.position ? "" : "ex-later" }, button);
  }
}
