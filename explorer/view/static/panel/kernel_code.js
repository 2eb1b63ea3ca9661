// The code of a kernel. A line and the node that it computes highlight each other.

import { RovingTabindex } from "../controls/roving_tabindex.js";
import { grouped } from "../data/number_format.js";
import { html, put } from "../dom.js";

/** Maximum number of lines on the page. */
const LINES = 400;

/** Code of one kernel at a time. */
export class KernelCode {
  /** @param {import("../data/trace.js").Trace} trace @param {import("./panel_parts.js").Actions} actions */
  constructor(trace, actions) {
    this.trace = trace;
    this.actions = actions;
    /** the lines on the page */ this.drawn = "";
    /** the selected node */ this.selected = -1;
    /** the scroll position before the panel is filled again */ this.top = 0;
    /** whether the code or the selected node has changed */ this.isNew = false;
    /** the node of the line under the pointer or with the focus */ this.pointed = -1;
    /** @type {Map<number, string>} the slots that other parts highlight */ this.under = new Map();
    const leave = () => this.#point(-1);
    this.root = html("div", {
      class: "ex-kernel-code", role: "region",
      click: (event) => this.#choose(event), keydown: (event) => this.#press(event),
      pointerover: (event) => this.#point(nodeOf(event.target)), pointerleave: leave, focusin: (event) => this.#point(nodeOf(event.target)), focusout: leave,
    });
    this.cut = html("div", { class: "ex-soft" });
    new RovingTabindex(this.root, "[data-node]", ["ArrowUp", "ArrowDown"]);
  }

  /** Return the code of a kernel, in which the lines of a node are marked; false if the kernel has none. @param {number} kernel @param {number} node */
  show(kernel, node) {
    const code = this.trace.recording.codes?.[kernel];
    if (!code) return false;
    this.top = this.root.scrollTop;
    const { lines } = code;
    const first = code.nodes.find(([, computed]) => computed === node)?.[0] ?? 1;
    // Only lines around the node's are on the page, because a kernel may have 100,000.
    const from = lines.length <= LINES ? 0 : Math.max(0, Math.min(first - 1 - LINES / 4, lines.length - LINES));
    const drawn = `${kernel}|${from}`;
    if (drawn !== this.drawn) this.#draw(code, kernel, from);
    this.drawn = drawn;
    for (const row of this.#rows()) put(row, "aria-current", nodeOf(row) === node && "true");
    this.isNew ||= node !== this.selected;
    this.selected = node;
    return html("div", {}, this.root, lines.length > LINES && this.cut);
  }

  /** Restore the scroll position, which an element loses when it moves in the page. */
  restore() {
    this.root.scrollTop = this.top;
  }

  /** Scroll to the line of the selected node, once the code is on the page. @param {boolean} isWanted also if the reader may have scrolled elsewhere */
  follow(isWanted = this.isNew) {
    if (!isWanted || !this.root.offsetHeight) return;
    this.isNew = false;
    if (this.selected >= 0) this.#reveal(this.selected);
    else this.root.scrollTop = 0;
  }

  #draw({ lines, nodes, language }, kernel, from) {
    const shown = lines.slice(from, from + LINES);
    const computed = new Map(nodes);
    const widths = lines.map((line) => line.search(/\S|$/));
    // The panel is narrow, so indentation by four characters is shown as two.
    const step = widths.every((width) => width % 4 === 0) ? 2 : 1;
    const rows = shown.map((line, index) => {
      const [node, width] = [computed.get(from + index + 1), widths[from + index] / step];
      const text = " ".repeat(width) + line.trimStart();
      const attributes = { class: "ex-code-line", style: `--ex-indent:${width}` };
      if (node === undefined) return html("div", /^(\/\/|#)/.test(line.trimStart()) ? attributes : { ...attributes, class: "ex-code-line ex-code-rest", title: line.trim() }, text || " ");
      return html("div", { ...attributes, role: "button", "data-node": node, "data-line": from + index + 1, title: `computes ${this.trace.namedLabel(node)}: a click selects it` }, text);
    });
    this.root.replaceChildren(...rows);
    this.isNew = true;
    put(this.root, "aria-label", `${language} code of kernel ${kernel + 1}`);
    put(this.root, "tabindex", nodes.length ? undefined : 0);
    this.cut.textContent = `lines ${grouped(from + 1)} to ${grouped(from + shown.length)} of ${grouped(lines.length)}`;
  }

  /** Add the slot of the node of the current line to the highlighted slots, and the slot of the scan if the node is in its steps. @param {Map<number, string>} lit */
  lit(lit) {
    this.under = lit;
    if (this.pointed < 0) return lit;
    const { trace } = this;
    const inSteps = trace.kernelOf[this.pointed] < 0 ? trace.kernels[trace.codeOf.get(this.pointed) ?? -1]?.nodes.at(-1) : undefined;
    const slots = [this.pointed, ...(inSteps === undefined ? [] : [inSteps])].map((node) => trace.slotOf[trace.origin(node)]);
    return new Map([...slots.filter((slot) => slot >= 0).map((slot) => /** @type {[number, string]} */ ([slot, "code"])), ...lit]);
  }

  /** Follow the pointer and the focus on the canvas. @param {HTMLElement} stage @param {(event: any) => number} nodeAt returns the node of an event, −1 for none */
  watch(stage, nodeAt) {
    const at = (event) => this.root.isConnected && this.#mark(nodeAt(event), true);
    for (const name of ["pointerover", "focusin"]) stage.addEventListener(name, at);
    stage.addEventListener("pointerleave", () => this.#mark(-1));
  }

  /** @returns {HTMLElement[]} */
  #rows() {
    return [...this.root.querySelectorAll("[data-node]")].filter((row) => row instanceof HTMLElement);
  }

  /** Highlight the lines of a node. @param {number} node @param {boolean} isRevealed whether to scroll to the first one */
  #mark(node, isRevealed = false) {
    for (const row of this.#rows()) row.classList.toggle("ex-pointed", nodeOf(row) === node);
    if (isRevealed && node >= 0) this.#reveal(node);
  }

  /** Highlight a node on the canvas, and all its lines. @param {number} node */
  #point(node) {
    if (node === this.pointed) return;
    this.pointed = node;
    this.#mark(node);
    this.actions.light();
  }

  /** Scroll the code, but not the panel around it, to the first line of a node. @param {number} node */
  #reveal(node) {
    const row = this.#rows().find((each) => nodeOf(each) === node);
    if (!row) return;
    const { root } = this;
    const top = row.getBoundingClientRect().top - root.getBoundingClientRect().top;
    if (top < 0 || top + row.offsetHeight > root.clientHeight) root.scrollTop += top - root.clientHeight / 3;
  }

  /** Select the node of a line, unless the reader has just marked text to copy it. */
  #choose(event) {
    const node = nodeOf(event.target);
    const marked = getSelection();
    const isCopied = event.detail > 0 && marked && !marked.isCollapsed && this.root.contains(marked.anchorNode);
    if (node >= 0 && !isCopied) this.actions.select(node);
  }

  #press(event) {
    if ((event.key !== "Enter" && event.key !== " ") || nodeOf(event.target) < 0) return;
    event.preventDefault();
    event.target.click();
  }
}

/** Return the node of the line that an event target belongs to, −1 for none. @param {EventTarget | null} target */
function nodeOf(target) {
  return target instanceof Element ? Number(target.closest(".ex-code-line[data-node]")?.getAttribute("data-node") ?? -1) : -1;
}
