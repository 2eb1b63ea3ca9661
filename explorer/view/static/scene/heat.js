// Heat: every node and closed box is coloured by its fraction of a metric's largest value.

import { html, say } from "../dom.js";
import { boxValue, metricText, sumName } from "../data/totals.js";

/** Coloured slots and boxes when heat is off. */
const NONE = { slots: new Map(), boxes: new Map() };

/** The choice to colour by source line, in addition to the metrics. */
export const LINES = "source line";
/** Opacity of a line's colour in a shape. */
const TINT = 0.42;

/**
 * Return the CSS variable of a share's colour and its opacity in a shape, 0 … 1.
 * @param {Share} share
 * @returns {[string, number]}
 */
export function tintOf(share) {
  if (typeof share === "string") return [`--ex-${share}`, TINT];
  return [share < 0 ? "--ex-cold" : "--ex-hot", Math.abs(share)];
}

/** @typedef {number | string} Share −1 … 1, or the name of a line's colour */

/** Choice of a metric, and the legend of its colours. */
export class Heat {
  /** @param {import("../data/totals.js").Totals} totals @param {import("../data/source_lines.js").SourceLines} lines @param {() => void} changed @param {string} first the initial metric */
  constructor(totals, lines, changed, first = "") {
    this.lines = lines;
    this.totals = totals;
    this.changed = changed;
    this.measure = first;
    /** @type {{placement: import("./placement.js").Placement, shares: any} | null} */ this.hued = null;
    /** @type {{number: number, placement: import("./placement.js").Placement, held: any, measure: string, shares: any} | null} the shares of the previous scene */ this.kept = null;
    this.known = totals.metrics.map(({ name }) => name);
    /** the choices; the keyboard cycles through metrics only */ this.choices = ["", ...this.known, ...(lines.isKnown ? [LINES] : [])];
    const options = this.choices.map((choice) => html("option", { value: choice }, choice === LINES ? `colour: ${choice}` : `heat: ${choice || "off"}`));
    this.select = html("select", { class: "ex-heat-choice", title: "colour the graph by cost (h)", "aria-label": "heat", change: () => this.choose(this.select.value) }, ...options);
    this.least = html("span", {}, "0");
    this.most = html("span");
    this.name = html("b");
    this.legend = html("div", { class: "ex-legend", hidden: true }, this.name, this.least, html("span", { class: "ex-ramp", "aria-hidden": "true" }), this.most);
    this.select.value = first;
    this.legend.hidden = first === "";
  }

  /** Colour by the named metric, or turn heat off with "". @param {string} measure */
  choose(measure) {
    this.measure = measure;
    this.select.value = measure;
    this.legend.hidden = measure === "" || measure === LINES;
    this.changed();
  }

  /** Switch to the next metric. */
  next() {
    this.choose(["", ...this.known][(this.known.indexOf(this.measure) + 2) % (this.known.length + 1)]);
  }

  /** Return the shares of all visible slots and boxes, −1 … 1; only an overlay's numbers may be negative. @param {import("./scene.js").Scene} scene @param {import("./placement.js").Placement} placement */
  shares(scene, placement) {
    const { totals } = this;
    if (this.measure === LINES) return this.#hues(placement);
    const metric = totals.metrics.find(({ name }) => name === this.measure);
    if (!metric) return NONE;
    const [slots, boxes] = [new Map(), new Map()];
    const measure = sumName(metric);
    const held = totals.at(scene.moment.position);
    const { kept } = this;
    const isStep = kept?.number === scene.changes.since && kept.placement === placement;
    if (isStep && kept.held === held && kept.measure === measure) {
      kept.number = scene.number;
      return kept.shares;
    }
    for (const [slot, mark] of scene.slots) {
      const stands = mark.state !== "gone" && mark.state !== "was";
      if (placement.hiddenIn[slot] === -1 && stands) slots.set(slot, measure === "time" ? totals.slotTimes[slot] : boxValue(metric, totals.node(mark.node)));
    }
    for (const box of placement.boxes.keys()) if (!placement.composed.has(box)) boxes.set(box, boxValue(metric, held[box]));
    let [most, least] = [0, 0];
    for (const values of [slots, boxes]) for (const value of values.values()) [most, least] = [Math.max(most, Math.abs(value)), Math.min(least, value)];
    for (const values of [slots, boxes]) for (const [key, value] of values) values.set(key, most ? Math.round((100 * value) / most) / 100 : 0);
    say(this.name, totals.heading(metric));
    this.legend.title = metric.text;
    say(this.most, metricText(metric, most));
    say(this.least, least < 0 ? metricText(metric, -most) : "0");
    this.legend.classList.toggle("ex-signed", least < 0);
    this.kept = { number: scene.number, placement, held, measure, shares: { slots, boxes } };
    return this.kept.shares;
  }

  /** Return the line colour of each slot. A closed box has a colour if everything inside has it. @param {import("./placement.js").Placement} placement */
  #hues(placement) {
    if (this.hued?.placement === placement) return this.hued.shares;
    const { lines } = this;
    const [slots, boxes] = [new Map(), new Map()];
    lines.trace.layout.slots.forEach(({ nodes }, slot) => {
      const row = lines.of(nodes[0]);
      if (row < 0) return;
      const share = `line-${lines.lines[row].hue}`;
      const box = placement.hiddenIn[slot] ?? -1;
      if (box < 0) slots.set(slot, share);
      else boxes.set(box, boxes.has(box) && boxes.get(box) !== share ? undefined : share);
    });
    this.hued = { placement, shares: { slots, boxes } };
    return this.hued.shares;
  }
}
