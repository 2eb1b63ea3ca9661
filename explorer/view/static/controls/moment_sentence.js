// The sentence above the canvas: the current moment, the reason of its decision, and a short summary of the cost.

import { hasFocus, html, put, say } from "../dom.js";
import { bytesText, grouped, microsText } from "../data/number_format.js";

/** Description of the moment on one line above the canvas. Further lines cover the top of the canvas, so the canvas never moves. */
export class Sentence {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.text = html("p");
    /** shown in place of the sentence */ this.note = html("p", { hidden: true });
    this.said = html("div", { class: "ex-say", role: "status", "aria-live": "polite" }, this.text, this.note);
    this.root = html("div", { class: "ex-saying" }, this.said);
    /** px of the canvas that the lines after the first cover */ this.excess = 0;
    // The observer is called after the layout of the page, so reading sizes here causes no layout.
    this.resized = new ResizeObserver(() => this.#measure());
    this.resized.observe(this.text);
  }

  /** Measure the px of the canvas that the lines after the first cover. */
  lines() {
    return Math.max(0, this.said.offsetHeight - this.root.offsetHeight);
  }

  #measure() {
    const { said, text } = this;
    const before = this.excess;
    this.excess = this.lines();
    // Not for the whole view, because every element in it would get a new style.
    for (const part of [this.view.parts.search.root, this.view.parts.help]) part.style.setProperty("--ex-over", `${this.excess}px`);
    if (this.excess > before) this.view.camera.revealAgain();
    said.classList.toggle("ex-over", this.excess > 0);
    put(said, "tabindex", (text.offsetHeight > said.offsetHeight || hasFocus(said)) && 0);
  }

  /** Show a note in place of the sentence until the next key or moment; "" ends this. @param {string} note */
  tell(note) {
    say(this.note, note);
    put(this.note, "hidden", !note);
    put(this.text, "hidden", Boolean(note));
  }

  /** Describe a moment. @param {import("../data/timeline.js").Moment} moment @param {import("../panel/panel_parts.js").PanelParts} parts @returns {string} the sentence as plain text */
  show(moment, parts) {
    const { trace, timeline, prediction } = this.view;
    this.tell("");
    const { place, verdict, fragments } = prediction.exercise?.saying() ?? saying(trace, timeline, moment, parts.summary);
    const name = timeline.stages[moment.stage]?.name ?? "";
    const mark = verdict && html("span", { class: `ex-verdict ex-mark-${verdict}` }, verdict === "applied" ? "✓ applied" : "✗ declined");
    const words = parts.decisionCard.words(fragments);
    const head = [html("b", {}, name), " ", html("span", { class: "ex-soft" }, place), " ", ...(mark ? [mark, " "] : [])];
    this.text.replaceChildren(...head, html("span", { class: "ex-sentence" }, ...words));
    return `${name} ${place}: ${fragments.map(({ text }) => text).join("")}`;
  }

  /** Silence the screen reader's announcements while steps are played. @param {boolean} playing */
  playing(playing) {
    put(this.said, "aria-live", playing ? "off" : "polite");
  }

  /** Disconnect the observer. */
  end() {
    this.resized.disconnect();
  }
}

/** Return the sentence of a moment as fragments (see data/trace.js). */
function saying(trace, timeline, moment, summary) {
  const stage = timeline.stages[moment.stage];
  if (!stage) return { place: "", verdict: "", fragments: [] };
  const plain = (text) => ({ text, node: -1 });
  if (moment.decision >= 0) {
    const place = `decision ${grouped(moment.decision - stage.first + 1)} of ${grouped(stage.last - stage.first)}`;
    return { place, verdict: trace.decisions[moment.decision].verdict, fragments: trace.sentence(moment.decision) };
  }
  if (moment.kernel >= 0) return kernelSaying(trace, moment, plain);
  const operations = new Map(stage.counts).get("operations");
  const counts = stage.kind === "record" ? `${stage.size || grouped(trace.count)} ${trace.count === 1 ? "node" : "nodes"}${operations ? `, ${operations} of them ${String(operations) === "1" ? "an operation" : "operations"}` : ""}` : "";
  const nothing = !stage.result && stage.kind === "rewrite" && stage.first === stage.last ? "changed nothing" : "";
  const introduction = stage.kind === "record" ? [summary.sentence].filter(Boolean) : [];
  const title = introduction.map((text) => ({ ...plain(text), isTitle: true }));
  return { place: counts || nothing, verdict: "", fragments: stage.result ? [plain(stage.result)] : title.length ? title : [plain(stage.purpose)] };
}

/** Planner's code for the reason of a pick → explanation. */
const WHY = {
  only: "no other kernel was ready",
  ready_first: "of the remaining kernels, only this one had all its operands",
  earliest: "of the ready kernels, it was recorded first",
  depth_first: "of the ready kernels, it comes first in depth-first order",
  own_order: "of the ready kernels, it comes first in the order of this plan's own pass",
  "": "",
  constant: "it is constant, so it is computed once, before all runs",
};

/** Return the sentence about a kernel that is picked or has run as fragments. */
export function kernelSaying(trace, moment, plain) {
  const kernel = trace.kernels[moment.kernel];
  const nodes = kernel.nodes.flatMap((node, index) => [...(index ? [plain(index === kernel.nodes.length - 1 ? " and " : ", ")] : []), { text: trace.namedLabel(node), node }]);
  if (moment.phase === "order") {
    const place = `pick ${grouped(moment.kernel + 1)} of ${grouped(trace.kernels.length)}`;
    const said = [kernel.ready_count > 1 && `${grouped(kernel.ready_count)} were ready`, kernel.waiting_count > 0 && `${grouped(kernel.waiting_count)} ${kernel.waiting_count === 1 ? "waits" : "wait"} for running kernels, by the estimates`];
    const rest = said.filter(Boolean).map((words) => `; ${words}`).join("");
    const why = WHY[kernel.pick_reason] ?? kernel.pick_reason;
    return { place, verdict: "", fragments: [...nodes, plain(` ${kernel.nodes.length > 1 ? "run" : "runs"} as number ${grouped(moment.kernel + 1)}${why && ": "}${why}${rest}.`)] };
  }
  const index = trace.stepOf.get(moment.kernel);
  const step = trace.steps[index];
  const frees = kernel.frees.length ? `; then ${grouped(kernel.frees.length)} ${kernel.frees.length === 1 ? "value is" : "values are"} dead` : "";
  const estimate = kernel.estimate === null ? "" : `, estimated ${microsText(kernel.estimate)}`;
  const live = step.live === null ? "" : `; ${bytesText(step.live)} live`;
  return {
    place: `step ${grouped(index + 1)} of ${grouped(trace.steps.length)}`,
    verdict: "",
    fragments: [...nodes, plain(` took ${microsText(step.micros)}${trace.isOnce(moment.kernel) ? " once" : ""}${estimate}${live}${frees}.`)],
  };
}

/** Summarize the cost of the graph at a moment. */
export function costText(trace, timeline, moment) {
  const stage = timeline.stages[moment.stage];
  if (!stage) return "";
  if (moment.phase === "run" && moment.kernel >= 0) {
    const step = trace.steps[trace.stepOf.get(moment.kernel)];
    return `${microsText(step.start + step.micros)} of ${microsText(trace.recording.run.micros)}${step.live === null ? "" : ` · ${bytesText(step.live)} live`}`;
  }
  const schedule = trace.recording.schedule;
  if (schedule && (moment.phase === "order" || moment.phase === "memory")) {
    if (schedule.peak === null) return "";
    const saved = schedule.peak_without_reuse ? Math.round(100 * (1 - schedule.peak / schedule.peak_without_reuse)) : 0;
    return `peak ${bytesText(schedule.peak)}${moment.phase === "memory" && saved > 0 ? ` · −${saved} %` : ""}`;
  }
  return stage.cost;
}
