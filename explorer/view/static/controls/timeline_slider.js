// Timeline slider with one tick per decision, the memory curves of plan and run, and the current moment.

import { html, put, svg } from "../dom.js";
import { bytesText } from "../data/number_format.js";

const [HIGH, BASE, TOP, PAD] = [32, 26, 11, 8];
/** Maximum average width in px of a label's letters. */
const LETTER = 5.8;

/** Slider over all moments, with the decisions drawn on it. */
export class TimelineSlider {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {(step: number) => void} onStep */
  constructor(trace, timeline, onStep) {
    this.trace = trace;
    this.timeline = timeline;
    this.onStep = onStep;
    this.width = 0;
    /** @type {number[]} */ this.decisions = [];
    this.picture = svg("svg", { height: HIGH, "aria-hidden": "true" });
    this.marks = svg("g");
    this.line = svg("path", { class: "ex-strip-now" });
    this.dot = svg("circle", { class: "ex-strip-dot", r: 4 });
    this.chosen = svg("path", { class: "ex-strip-chosen" });
    this.picture.append(this.marks, this.chosen, this.line, this.dot);
    this.slider = html("input", { type: "range", min: 0, max: timeline.end, step: 1, "aria-label": "moment", input: () => onStep(Number(this.slider.value)) });
    this.root = html("div", { class: "ex-strip" }, this.picture, html("div", { class: "ex-slider" }, this.slider, html("div", { class: "ex-ring" })));
    /** @type {{left: number, right: number, step: number}[]} labels of peaks, which the slider covers */ this.peaks = [];
    this.root.addEventListener("mousedown", (event) => this.#visitPeak(event), true);
    this.peak = trace.kernels.reduce((most, kernel, index) => Math.max(most, trace.live(index) ?? 0, kernel.live ?? 0), 1);
  }

  #x(step) {
    return PAD + ((this.width - 2 * PAD) * step) / Math.max(1, this.timeline.end);
  }

  #y(live) {
    return BASE - (live / this.peak) * (BASE - TOP);
  }

  /** Go to the peak whose label was pressed. */
  #visitPeak(event) {
    const { left, top } = this.root.getBoundingClientRect();
    const x = event.clientX - left;
    const peak = event.clientY - top < TOP && this.peaks.find((each) => each.left <= x && x <= each.right);
    if (!peak) return;
    event.preventDefault();
    event.stopPropagation();
    this.onStep(peak.step);
  }

  /** Draw it for a width in px. @param {number} width */
  resize(width) {
    if (width === this.width || width < 40) return;
    this.width = width;
    put(this.picture, "width", width);
    const shapes = [svg("path", { class: "ex-strip-base", d: `M${PAD} ${BASE}H${width - PAD}` })];
    let [edges, applied, declined] = ["", "", ""];
    const peaks = [];
    for (const stage of this.timeline.stages) {
      if (stage.end > stage.start) edges += `M${(this.#x(stage.start) + this.#x(stage.start + 1)) / 2} ${BASE - 2}v7`;
      for (let index = stage.first; index < stage.last; index++) {
        const x = this.#x(stage.start + index - stage.first + 1).toFixed(1);
        if (this.timeline.decisions[index].verdict === "applied") applied += `M${x} ${BASE}v-12`;
        else declined += `M${x} ${BASE}v-5`;
      }
      if (stage.kind === "order" || stage.kind === "run") shapes.push(this.#curve(stage, peaks));
    }
    shapes.push(svg("path", { class: "ex-strip-edge", d: edges }), svg("path", { class: "ex-strip-applied", d: applied }), svg("path", { class: "ex-strip-declined", d: declined }), ...this.#labels(peaks));
    this.marks.replaceChildren(...shapes);
    if (this.moment) this.show(this.moment, this.spoken);
    this.mark(this.decisions);
  }

  /** Return the curve of live bytes over a stage's moments, and add its peak to `peaks`. */
  #curve(stage, peaks) {
    const from = stage.start + stage.last - stage.first;
    const count = stage.end - from;
    if (count <= 0) return svg("g");
    const known = Array.from({ length: count }, (_, place) => this.#live(stage.kind, place));
    if (known.every((live) => live === null)) return svg("g");
    const lives = known.map((live) => live ?? 0);
    const half = (this.#x(1) - this.#x(0)) / 2;
    let d = `M${(this.#x(from + 1) - half).toFixed(1)} ${BASE}`;
    lives.forEach((live, place) => {
      d += `V${this.#y(live).toFixed(1)}H${Math.min(this.#x(from + place + 1) + half, this.width - 1).toFixed(1)}`;
    });
    d += `V${BASE}`;
    const most = lives.reduce((highest, live, place) => (live > lives[highest] ? place : highest), 0);
    const text = `most live ${bytesText(lives[most])}`;
    peaks.push({ x: this.#x(from + most + 1), text, step: from + most + 1 });
    return svg("path", { class: `ex-strip-memory ex-strip-${stage.kind}`, d });
  }

  /** Return the labels of peaks inside the strip. Of two labels that would overlap, only the later one is drawn; if both peaks are equal, it is marked as planned. */
  #labels(peaks) {
    const placed = peaks.map(({ x, text, step }) => {
      const wide = LETTER * text.length;
      return { left: Math.max(PAD, Math.min(this.width - PAD - wide, x - wide / 2)), wide, text, step };
    });
    const apart = placed.filter(({ left, wide }, index) => placed.slice(index + 1).every((later) => left + wide + PAD < later.left || later.left + later.wide + PAD < left));
    this.peaks = apart.map(({ left, wide, step }) => ({ left, right: left + wide, step }));
    return apart.map(({ left, wide, text }, index) => {
      const says = apart[index - 1]?.text === text ? "as planned" : text;
      return svg("text", { class: "ex-strip-peak", x: (left + wide / 2).toFixed(1), y: TOP - 3 }, says);
    });
  }

  #live(phase, place) {
    return phase === "order" ? this.trace.kernels[place].live : this.trace.steps[place].live;
  }

  /** Mark the decisions on the selected node. @param {number[]} decisions */
  mark(decisions) {
    this.decisions = decisions;
    put(this.chosen, "d", decisions.map((index) => `M${this.#x(this.timeline.afterDecision(index)).toFixed(1)} ${BASE}v-12`).join(""));
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {string} spoken its description for screen readers */
  show(moment, spoken) {
    this.moment = moment;
    this.spoken = spoken;
    if (Number(this.slider.value) !== moment.step) this.slider.value = String(moment.step);
    put(this.slider, "aria-valuetext", spoken);
    const x = this.#x(moment.step).toFixed(1);
    const live = moment.kernel < 0 ? 0 : moment.phase === "order" ? this.trace.kernels[moment.kernel].live : this.trace.live(moment.kernel);
    const isFlat = moment.kernel < 0 || live === null;
    put(this.line, "d", `M${x} ${TOP}V${BASE + 4}`);
    put(this.dot, "cx", x);
    put(this.dot, "cy", isFlat ? BASE : this.#y(live).toFixed(1));
  }
}
