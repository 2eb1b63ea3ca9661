// The stages of the timeline as chips; passes that changed nothing, rounds of one pass, and passes of one pipeline share a chip.

import { hasFocus, html, put } from "../dom.js";
import { grouped } from "../data/number_format.js";

/** Row of chips. */
export class StageChips {
  /** @param {import("../data/timeline.js").Timeline} timeline @param {(stage: number) => void} onPick */
  constructor(timeline, onPick) {
    this.timeline = timeline;
    this.onPick = onPick;
    this.unfolded = new Set();
    this.root = html("nav", { class: "ex-rail", "aria-label": "stages", scroll: () => this.#fade() });
    this.resized = new ResizeObserver(() => this.#settle());
    this.resized.observe(this.root);
    this.current = -1;
    this.#build();
  }

  /** Mark a stage as the current one. @param {number} stage */
  show(stage) {
    if (stage === this.current) return;
    this.current = stage;
    this.#build();
    if (this.room) this.#settle();
  }

  /** Keep the current stage's chip and its neighbours visible. If the row is too short, only this chip shows its numbers. */
  #settle() {
    const { root } = this;
    root.classList.remove("ex-tight", "ex-tighter");
    for (const name of ["ex-tight", "ex-tighter"]) if (root.scrollWidth > root.clientWidth) root.classList.add(name);
    this.room = root.clientWidth;
    const chip = this.root.querySelector("[aria-current]");
    if (chip) {
      const left = chip.offsetLeft - this.root.offsetLeft;
      const around = Math.min(70, (this.room - chip.offsetWidth) / 2);
      if (left - around < this.root.scrollLeft) this.root.scrollLeft = left - around;
      else if (left + chip.offsetWidth + around > this.root.scrollLeft + this.room) this.root.scrollLeft = left + chip.offsetWidth + around - this.room;
    }
    this.#fade();
  }

  /** Fade the ends of the row that hide more chips. */
  #fade() {
    const { scrollLeft, scrollWidth, clientWidth } = this.root;
    put(this.root, "data-more", [scrollLeft > 1 && "before", scrollLeft + clientWidth < scrollWidth - 1 && "after"].filter(Boolean).join(" ") || false);
  }

  /**
   * Group the stages: consecutive passes without decisions together, consecutive stages of one name or pipeline together, every other stage on its own.
   * A stage that decides the kernels is never hidden among other passes of its pipeline.
   * @returns {{quiet: boolean, name: string, indices: number[]}[]}
   */
  #runs() {
    /** @type {{quiet: boolean, name: string, indices: number[]}[]} */ const runs = [];
    for (const [index, stage] of this.timeline.stages.entries()) {
      const quiet = stage.kind === "rewrite" && stage.first === stage.last;
      const name = quiet ? "" : (stage.decides !== "kernels" && stage.pipeline) || stage.name;
      const before = runs.at(-1);
      if (before && quiet === before.quiet && name === before.name) before.indices.push(index);
      else runs.push({ quiet, name, indices: [index] });
    }
    return runs;
  }

  #isOpen({ quiet, indices }) {
    return (!quiet && indices.length === 1) || this.unfolded.has(indices[0]) || indices.includes(this.current);
  }

  /** Whether a stage is folded into a chip with others that changed nothing. @param {number} stage */
  isFolded(stage) {
    return this.#runs().some((run) => run.quiet && run.indices.includes(stage) && !this.#isOpen(run));
  }

  #build() {
    const parts = [];
    for (const run of this.#runs()) {
      const { indices } = run;
      const chips = this.#isOpen(run) ? indices.map((index) => this.#chip(index)) : [this.#folded(run)];
      for (const chip of chips) parts.push(...(parts.length ? [html("span", { class: "ex-arrow", "aria-hidden": "true" }, "›")] : []), chip);
    }
    const hadFocus = hasFocus(this.root);
    this.root.replaceChildren(...parts);
    if (hadFocus) this.root.querySelector("[aria-current]")?.focus();
  }

  #chip(index) {
    const stage = this.timeline.stages[index];
    const size = this.#size(index);
    const chip = html("button", { type: "button", class: "ex-chip", title: stage.purpose, click: () => this.onPick(index) }, html("b", {}, stage.name), size && html("small", {}, size));
    if (stage.applied) chip.append(html("small", { class: "ex-mark-applied", "aria-label": `${stage.applied} applied` }, `${grouped(stage.applied)}✓`));
    if (stage.declined) chip.append(html("small", { class: "ex-mark-declined", "aria-label": `${stage.declined} declined` }, `${grouped(stage.declined)}✗`));
    chip.classList.toggle("ex-idle", stage.kind === "rewrite" && stage.applied === 0);
    put(chip, "aria-current", index === this.current && "step");
    return chip;
  }

  /** Return the size of the graph after a stage if it changed. */
  #size(index) {
    const { size } = this.timeline.stages[index];
    return size === this.timeline.stages[index - 1]?.size ? "" : size;
  }

  /** Return the chip of several stages. The chip of rounds or of a pipeline goes to its last stage, which shows the others next to it. */
  #folded({ quiet, name, indices }) {
    const { stages } = this.timeline;
    const names = indices.map((index) => stages[index].name);
    if (!quiet) {
      const said = new Set(names).size === 1 ? `${indices.length} rounds of ${name}` : `${indices.length} passes of ${name}: ${names.join(", ")}`;
      const chip = html("button", { type: "button", class: "ex-chip ex-folded", title: said, "aria-label": said, click: () => this.onPick(indices[indices.length - 1]) }, html("b", {}, name), html("small", {}, `×${grouped(indices.length)}`));
      for (const [verdict, sign] of /** @type {const} */ ([["applied", "✓"], ["declined", "✗"]])) {
        const count = indices.reduce((sum, index) => sum + stages[index][verdict], 0);
        if (count) chip.append(html("small", { class: `ex-mark-${verdict}` }, `${grouped(count)}${sign}`));
      }
      return chip;
    }
    const unfold = () => {
      this.unfolded.add(indices[0]);
      this.#build();
    };
    return html("button", { type: "button", class: "ex-chip ex-folded", title: `changed nothing: ${names.join(", ")}`, "aria-label": `${indices.length} ${indices.length === 1 ? "pass" : "passes"} changed nothing: ${names.join(", ")}`, click: unfold }, `+${indices.length}`);
  }
}
