// The decisions of a stage or the whole plan: the costliest first, equal ones folded, filtered by verdict and words.

import { html, put, refill, say } from "../dom.js";
import { Query, fold } from "../data/search_query.js";
import { foldedDecisions } from "../data/folded_decisions.js";
import { bytesText, grouped, microsText } from "../data/number_format.js";

const [LISTED, PLACES] = [40, 12];
/** Selectable cost limits in µs; declined decisions with lower costs are listed as trifles. */
const THRESHOLDS = [0, 0.1, 1, 10, 100];
const VERDICTS = [["", "all"], ["applied", "✓ applied"], ["declined", "✗ declined"]];

/** List with a filter, kept between steps. */
export class Decisions {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {(step: number) => void} go */
  constructor(trace, timeline, go) {
    this.trace = trace;
    this.timeline = timeline;
    this.go = go;
    this.first = this.last = 0;
    /** whether the recording has costs of declining; other compilers state none */
    this.isCosted = trace.decisions.some(({ cost }) => cost > 0);
    /** @type {{stage: number, first: number, last: number} | undefined} the range of listed decisions in which a reader picked one, kept while its stage is shown */ this.picked = undefined;
    this.verdict = "";
    /** @type {Map<string, any>} key → rows of a list without words to filter by */ this.unfiltered = new Map();
    this.title = html("h5", { "aria-level": 3 });
    // Not a select element: browsers anchor its popup and lay out the whole page for each change near it.
    this.threshold = html("input", { type: "range", max: THRESHOLDS.length - 1, value: 1, "aria-label": "cost of declining below which a decision is a trifle", input: () => this.#weigh() });
    this.thresholdText = html("span");
    this.costs = html("label", { class: "ex-threshold" }, this.threshold, this.thresholdText);
    this.field = html("input", { type: "search", placeholder: "filter decisions …", "aria-label": "filter decisions", input: () => this.#list() });
    this.buttons = VERDICTS.map(([verdict, text]) => html("button", { type: "button", "data-verdict": verdict, click: () => this.#choose(verdict) }, text));
    this.filtered = html("div", { class: "ex-filtered", role: "status" });
    this.rows = html("ol", { class: "ex-decisions" });
    this.rest = html("div", { class: "ex-soft" });
    this.filter = html("div", { class: "ex-filter" }, this.field, html("div", { role: "group", "aria-label": "verdict" }, ...this.buttons), this.costs);
    this.root = html("div", { role: "group", "aria-label": "decisions" }, this.title, this.filter, this.filtered, this.rows, this.rest);
    this.#mark();
    this.#readThreshold();
  }

  /** Show the decisions at a moment. @param {import("../data/timeline.js").Moment} moment @returns {Element | false} false if there are none or the only one is shown in full */
  show(moment) {
    const stage = this.timeline.stages[moment.stage];
    const own = stage.kind === "rewrite" || stage.last > stage.first;
    const all = this.trace.decisions.length;
    if (this.picked?.stage !== moment.stage) this.picked = undefined;
    ({ first: this.first, last: this.last } = this.picked ?? (own ? stage : { first: 0, last: all }));
    this.moment = moment;
    const count = this.last - this.first;
    if (!count || (count === 1 && moment.decision >= 0)) return false;
    this.filter.hidden = count === 1;
    const stages = this.timeline.stages.filter(({ first, last }) => this.first <= first && last <= this.last);
    const [applied, declined] = ["applied", "declined"].map((verdict) => stages.reduce((sum, counts) => sum + counts[verdict], 0));
    const name = own && this.first === stage.first && this.last === stage.last ? stage.name : "the whole plan";
    say(this.title, `${name}: ${grouped(applied)} applied, ${grouped(declined)} declined`);
    this.#list();
    return this.root;
  }

  #choose(verdict) {
    this.verdict = verdict;
    this.#mark();
    this.#list();
  }

  /** Clear the filter. */
  #unfilter() {
    this.field.value = "";
    this.#choose("");
    // The list has no filter to focus if the stage has only one decision.
    const next = this.filter.hidden ? this.rows.querySelector("button") : this.field;
    next?.focus({ preventScroll: true });
  }

  #weigh() {
    this.#readThreshold();
    this.#list();
  }

  #readThreshold() {
    this.least = THRESHOLDS[Number(this.threshold.value)];
    const text = this.least ? `trifles: below ${microsText(this.least)}` : "no trifles";
    say(this.thresholdText, text);
    put(this.threshold, "aria-valuetext", text);
  }

  #mark() {
    for (const button of this.buttons) put(button, "aria-pressed", String(button.dataset.verdict === this.verdict));
  }

  /** Return the rows that the list has at every moment of a stage; results without words to filter by are cached. */
  #groups() {
    const key = `${this.first}|${this.last}|${this.verdict}|${this.least}|${this.field.value}`;
    if (this.kept?.key === key) return this.kept;
    this.kept = this.unfiltered.get(key);
    if (this.kept) return Object.assign(this.kept, { from: 0 });
    const query = new Query(this.field.value);
    const indices = [];
    for (let index = this.first; index < this.last; index++) {
      const { verdict, rule, code } = this.trace.decisions[index];
      if (this.verdict && verdict !== this.verdict) continue;
      if (query.isEmpty || query.matchesText(fold(`${rule}\n${code}\n${this.trace.decisionPlace(index)}\n${this.trace.plainSentence(index)}`))) indices.push(index);
    }
    const groups = foldedDecisions(this.trace, indices);
    const isTrifle = ({ verdict, cost }) => this.isCosted && verdict === "declined" && cost < this.least;
    const trifles = groups.filter(isTrifle);
    const listed = [...groups.filter((group) => !isTrifle(group)), ...trifles];
    const places = new Map();
    listed.forEach(({ decisions }, place) => decisions.forEach((decision) => places.set(decision, place)));
    this.kept = { key, from: 0, rows: new Map(), count: indices.length, listed, trifles, places, isAnyDeclined: groups.some(({ verdict }) => verdict === "declined") };
    if (query.isEmpty) this.unfiltered.set(key, this.kept);
    return this.kept;
  }

  #list() {
    const groups = this.#groups();
    const { listed, trifles, places, isAnyDeclined } = groups;
    const near = places.get(this.moment.decision) ?? -1;
    // The listed range does not change while it contains the current row.
    if (near >= 0 && (near < groups.from || near >= groups.from + LISTED)) groups.from = Math.max(0, Math.min(near - LISTED / 2, listed.length - LISTED));
    const { from } = groups;
    const rows = listed.slice(from, from + LISTED).flatMap((group, place) => {
      const heading = group === trifles[0] ? [(groups.heading ??= html("li", { class: "ex-soft ex-trifles" }, `below ${microsText(this.least)}:`))] : [];
      return [...heading, ...this.#folded(group, from + place === near)];
    });
    refill(this.rows, rows);
    this.costs.hidden = !isAnyDeclined || !this.isCosted;
    this.#tellFilter(groups.count);
    say(this.rest, listed.length > LISTED ? `${grouped(LISTED)} of ${grouped(listed.length)} shown` : "");
  }

  /** Show how many decisions pass the filter, with a button that clears it, because the filter stays when the stage changes. @param {number} count */
  #tellFilter(count) {
    const words = this.field.value.trim();
    const by = [VERDICTS.find(([verdict]) => this.verdict && verdict === this.verdict)?.[1], words && `“${words}”`].filter(Boolean).join(", ");
    const text = by && `filter ${by}: ${grouped(count)} of ${grouped(this.last - this.first)} · `;
    if (this.filtered.firstChild?.textContent === text) return;
    this.filtered.replaceChildren(...(by ? [text, html("button", { type: "button", class: "ex-link", click: () => this.#unfilter() }, "show all")] : []));
  }

  /** Return one row for decisions with equal sentences or reasons, or the locations of all of them if the view is at one. */
  #folded({ decisions, cost, bytes, verdict, isGeneral }, here) {
    const { decision } = this.moment;
    const detail = verdict === "declined" && (cost > 0 ? `≈ ${microsText(cost)}` : isGeneral && bytes > 0 && `values of ${bytesText(bytes)}`);
    const counts = [decisions.length > 1 && ` ×${grouped(decisions.length)}`, detail];
    const [head, ...others] = here ? decisions.slice(0, PLACES) : decisions.slice(0, 1);
    if (here && decision !== head && !others.includes(decision)) others.push(decision);
    if (isGeneral && !here) return [this.#kept(head, counts, this.trace.generalSentence(head), "")];
    return [this.#kept(head, counts, this.trace.plainSentence(head)), ...others.map((index) => this.#kept(index, [], isGeneral ? this.trace.plainSentence(index) : ""))];
  }

  /** Return a list row that is reused between moments; only its moment mark changes. @param {number} index @param {(string | false)[]} counts @param {string} text @param {string} [place] */
  #kept(index, counts, text, place) {
    const { rows } = this.kept;
    const key = `${index}|${text}`;
    const known = rows.get(key);
    if (known) this.#stand(known, index, this.moment);
    else rows.set(key, this.row(index, this.moment, counts, text, place));
    return rows.get(key);
  }

  /** Mark whether a row's decision is current, past or later. @param {Element} row @param {number} index @param {import("../data/timeline.js").Moment} moment */
  #stand(row, index, moment) {
    put(row.firstElementChild, "aria-current", index === moment.decision && "step");
    put(row, "class", index === moment.decision ? "ex-now" : index < moment.position ? "" : "ex-later");
  }

  /** Return a row for a decision, beginning with its location; a click goes to the decision. @param {number} index @param {import("../data/timeline.js").Moment} moment @param {(string | false)[]} [counts] the number of decisions it represents, and the cost @param {string} [text] the sentence, or "" to leave it out @param {string} [place] the location, or "" to leave it out */
  row(index, moment, /** @type {(string | false)[]} */ [count = false, cost = false] = [], text = this.trace.plainSentence(index), place = this.trace.decisionPlace(index)) {
    const { verdict } = this.trace.decisions[index];
    const mark = html("span", { class: `ex-mark ex-mark-${verdict}`, "aria-label": verdict }, verdict === "applied" ? "✓" : "✗");
    const head = [place && html("b", {}, place), count && html("b", { class: "ex-count" }, count), cost && html("span", { class: "ex-soft" }, ` · ${cost}`)].filter(Boolean);
    const parts = [head.length > 0 && html("span", { class: "ex-at" }, ...head), text && html("span", {}, text)];
    const button = html("button", { type: "button", "data-decision": index, click: () => this.#pick(index), title: [place, this.trace.plainSentence(index)].filter(Boolean).join("\n") }, mark, html("span", {}, ...parts));
    const item = html("li", {}, button);
    this.#stand(item, index, moment);
    return item;
  }

  /** Go to a decision without changing the list. */
  #pick(index) {
    const stage = this.timeline.stages.findIndex(({ first, last }) => first <= index && index < last);
    if (this.root.isConnected) this.picked = { stage, first: this.first, last: this.last };
    this.go(this.timeline.afterDecision(index));
  }
}
