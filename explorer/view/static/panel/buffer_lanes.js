// Buffer timeline: one lane for each buffer, one bar for each live range of a value, up to the current kernel.

import { explained } from "./term_tooltips.js";
import { html, svg } from "../dom.js";
import { bytesText, grouped } from "../data/number_format.js";

const [WIDE, LANE, BAR, SHOWN, LANES] = [284, 17, 13, 48, 14];

/** @typedef {{node: number, from: number, to: number, buffer: number, bytes: number, inPlace: boolean}} Life the live range of a value, kernels `from` … `to` */

/** Live ranges of all values: from the kernel that computes a value to its last reader. */
export class BufferLanes {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    /** @type {Map<string, number> | undefined} name → how many nodes have it */ this.names = undefined;
    /** whether a plan assigned buffers; else a runtime allocated memory, and measured how much of it is live */
    this.isPlanned = trace.kernels.some(({ buffer }) => buffer !== null);
    this.lives = this.isPlanned ? this.#planned() : trace.steps.some(({ live }) => live !== null) ? this.#read() : [];
  }

  /** Return the live ranges of a plan. @returns {Life[]} */
  #planned() {
    const { trace } = this;
    const last = trace.kernels.length - 1;
    return trace.kernels.flatMap((kernel, from) => {
      const node = kernel.nodes[kernel.nodes.length - 1];
      if (kernel.buffer === null) return [];
      // Values computed once for all runs do not belong to the memory of a single run.
      if (kernel.buffer < 0 && (!kernel.bytes || trace.once.has(from))) return [];
      const freed = trace.freedBy[node];
      return [{ node, from, to: freed < 0 ? last : freed, buffer: kernel.buffer, bytes: kernel.bytes, inPlace: kernel.in_place }];
    });
  }

  /** Return the live ranges of the values that one kernel computes and another one, or the caller, reads. @returns {Life[]} */
  #read() {
    const { trace } = this;
    const last = trace.kernels.length - 1;
    const final = trace.resolver(trace.decisions.length);
    /** @type {Map<number, number>} value → its last reader */ const until = new Map();
    for (const [kernel, { nodes }] of trace.kernels.entries()) {
      for (const node of nodes) for (const operand of trace.nodes.operands[node]) until.set(final[operand], kernel);
    }
    for (const { outputs } of trace.recording.bodies) for (const node of outputs) until.set(final[node], last);
    return trace.kernels.flatMap(({ nodes }, from) => {
      const kept = nodes.filter((node) => trace.kernelOf[node] === from && (until.get(node) ?? from) > from);
      return kept.map((node) => ({ node, from, to: until.get(node), buffer: -1, bytes: trace.nodes.bytes[node], inPlace: false }));
    });
  }

  /** Return where a value is, as a suffix; "" if a runtime allocated its memory. @param {Life} life */
  #held({ buffer, inPlace }) {
    return !this.isPlanned ? "" : buffer < 0 ? " · the caller's" : ` · buffer ${buffer}${inPlace ? ", in place" : ""}`;
  }

  /** Return the values that are live while a kernel runs, including its result. @param {number} kernel @returns {Life[]} */
  alive(kernel) {
    return this.lives.filter(({ from, to }) => from <= kernel && kernel <= to);
  }

  /** Draw the timeline around a kernel (−1: from the beginning). @param {number} kernel @param {{go: (kernel: number) => void, select: (node: number) => void}} actions @param {number} selected a node */
  picture(kernel, actions, selected) {
    const { trace } = this;
    const count = Math.min(SHOWN, trace.kernels.length);
    const start = Math.max(0, Math.min(kernel - (count >> 1), trace.kernels.length - count));
    const seen = this.lives.filter(({ from, to }) => to >= start && from < start + count);
    const rows = this.#rows(seen, kernel);
    const step = WIDE / count;
    const high = rows.size * LANE + 2;
    const root = svg("svg", { class: "ex-lanes", width: WIDE, height: high, role: "img", "aria-label": this.#spoken(kernel) });
    root.addEventListener("click", (event) => {
      const node = event.target.closest("[data-life]")?.dataset.life;
      if (node !== undefined) return actions.select(Number(node));
      const { left } = root.getBoundingClientRect();
      actions.go(start + Math.max(0, Math.min(count - 1, Math.floor((event.clientX - left) / step))));
    });
    root.append(svg("rect", { class: "ex-lanes-ground", width: WIDE, height: high }));
    if (kernel >= 0) root.append(svg("rect", { class: "ex-lanes-now", x: (kernel - start) * step, width: step, height: high }));
    for (const life of seen) {
      const row = rows.get(this.#lane(life));
      if (row !== undefined) root.append(this.#bar(life, row, start, step, kernel, selected));
    }
    return root;
  }

  /** Return the lane of a value: its buffer, or a separate lane if it is returned to the caller. */
  #lane(life) {
    return life.buffer >= 0 ? life.buffer : `own ${life.node}`;
  }

  /** Return a map from lanes to rows, buffers first. If there are too many, include only lanes in use now. */
  #rows(seen, kernel) {
    const order = (a, b) => Number(a.buffer < 0) - Number(b.buffer < 0) || a.buffer - b.buffer || a.from - b.from;
    let wanted = [...seen].sort(order).map((life) => this.#lane(life));
    if (new Set(wanted).size > LANES) {
      const now = new Set(this.alive(kernel).map((life) => this.#lane(life)));
      wanted = [...wanted.filter((lane) => now.has(lane)), ...wanted];
    }
    return new Map([...new Set(wanted)].slice(0, LANES).map((lane, row) => [lane, row]));
  }

  #bar(life, row, start, step, kernel, selected) {
    const { node, from, to, buffer, bytes, inPlace } = life;
    // With in-place execution, the overwritten value and the new one share a kernel, so each gets half of its width.
    const left = Math.max(0, (from - start + (inPlace ? 0.5 : 0)) * step);
    const taken = buffer >= 0 && this.trace.kernels[to].in_place && this.trace.kernels[to].buffer === buffer && to > from;
    const right = Math.min(WIDE, (to - start + (taken ? 0.5 : 1)) * step);
    const state = kernel < 0 ? "" : kernel < from ? " ex-later" : kernel > to ? " ex-dead" : " ex-alive";
    const label = this.trace.namedLabel(node);
    const group = svg("g", { class: `ex-life${state}${node === selected ? " ex-chosen" : ""}`, "data-life": node });
    const title = svg("title");
    title.textContent = `${label}: ${bytesText(bytes)}${this.#held(life)}, kernel ${grouped(from + 1)} to ${grouped(to + 1)}`;
    group.append(title, svg("rect", { x: left + 0.5, y: row * LANE + 2, width: Math.max(2, right - left - 1), height: BAR, rx: 3 }));
    if (right - left > 34) {
      const text = svg("text", { x: left + 5, y: row * LANE + 12 });
      text.textContent = cut(label, (right - left - 8) / 5.6);
      group.append(text);
    }
    return group;
  }

  #spoken(kernel) {
    if (kernel < 0) return `contents of ${this.isPlanned ? "each buffer" : "the memory"}, kernel by kernel`;
    const where = ({ buffer }) => (!this.isPlanned ? "" : buffer < 0 ? " in the caller's memory" : ` in buffer ${buffer}`);
    const alive = this.alive(kernel).map((life) => `${this.trace.namedLabel(life.node)}${where(life)}`);
    return `${this.isPlanned ? "buffers" : "values"} at kernel ${grouped(kernel + 1)}: ${alive.join(", ") || "none is in use"}`;
  }

  /** Return the location of a node whose name is not unique. @param {number} node */
  #place(node) {
    const { trace } = this;
    this.names ??= trace.nodes.label.reduce((counts, _, each) => counts.set(trace.namedLabel(each), (counts.get(trace.namedLabel(each)) ?? 0) + 1), new Map());
    return this.names.get(trace.namedLabel(node)) > 1 && html("div", { class: "ex-soft" }, trace.scopePath(node).join(" / ") || trace.sourceText(node));
  }

  /** Return a table of the live values, the largest first. @param {number} kernel @param {(node: number) => Element} link @param {import("./elements.js").KeptParts} kept */
  table(kernel, link, kept) {
    const alive = this.alive(kernel).sort((a, b) => b.bytes - a.bytes);
    const cells = alive.slice(0, LANES).flatMap((life) => {
      const { node, bytes } = life;
      const said = `${bytesText(bytes)}${this.#held(life)}`;
      return [kept.part(`live|${node}`, () => html("dt", {}, link(node), this.#place(node))), kept.part(`live in|${said}`, () => html("dd", {}, said))];
    });
    const { workspace } = this.trace.kernels[kernel];
    if (workspace) cells.push(html("dt", {}, ...explained("working memory")), html("dd", {}, bytesText(workspace)));
    const other = this.isPlanned ? 0 : this.trace.live(kernel) - alive.reduce((sum, { bytes }) => sum + bytes, 0);
    if (other > 0) cells.push(html("dt", {}, "padding and working memory"), html("dd", {}, bytesText(other)));
    if (alive.length > LANES) cells.push(html("dt", {}, `and ${grouped(alive.length - LANES)} more`));
    return kept.filled("living", () => html("dl", { class: "ex-facts ex-living", "aria-label": "live values" }), cells);
  }
}

function cut(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, Math.floor(letters) - 1))}…`;
}
