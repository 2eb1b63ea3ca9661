// Sizes of the parts of a view: its height, the panel next to or below the canvas, full screen. The browser stores them.

import { put } from "../dom.js";
import { Splitter } from "./splitter.js";

/** Widths in px below which the panel is a drawer over the right of the canvas, a drawer over its bottom, and the steps need two lines. */
const [DRAWER, NARROW, SLIM] = [1100, 720, 480];
/** Minimum px of the view's height, and of the panel, the canvas next to it, the source and the tree. */
const [LOW, PANEL, CANVAS, SOURCE, TREE] = [320, 200, 240, 160, 100];
const KEY = "explorer.sizes";
/** Maximum ms between the clicks of a double click. */
const DOUBLE_CLICK = 350;

/** Sizes of one view's parts. */
export class PaneSizes {
  /** @param {HTMLElement} root @param {number} height px, as requested from Python */
  constructor(root, height) {
    this.root = root;
    this.chosen = recall();
    this.asked = height;
    /** whether a node or a box is selected */ this.isSelected = false;
    /** called when a selection has opened the drawer */ this.onDrawer = () => {};
    const main = () => root.querySelector(".ex-main");
    /** @returns {HTMLElement} */ const panel = () => root.querySelector(".ex-why");
    const side = () => (this.isNarrow ? "below" : "panel");
    this.panelBar = new Splitter("ex-panel-bar", {
      name: "size of the panel", grows: -1,
      axis: () => (this.isNarrow ? "y" : "x"),
      limits: () => (this.isNarrow ? { least: 80, most: Math.max(80, main().clientHeight - CANVAS) } : { least: PANEL, most: Math.max(PANEL, main().clientWidth - CANVAS) }),
      read: () => (this.isNarrow ? panel().offsetHeight : panel().offsetWidth),
      write: (px) => this.choose(side(), px),
      reset: () => this.choose(side(), undefined),
    });
    /** @returns {HTMLElement} */ const source = () => root.querySelector(".ex-listing");
    const sourceSide = () => (this.isNarrow ? "source above" : "source beside");
    this.sourceBar = new Splitter("ex-source-bar", {
      name: "size of the source", grows: 1,
      axis: () => (this.isNarrow ? "y" : "x"),
      limits: () => (this.isNarrow ? { least: 60, most: Math.max(60, main().clientHeight - CANVAS) } : { least: SOURCE, most: Math.max(SOURCE, main().clientWidth - panel().offsetWidth - CANVAS) }),
      read: () => (this.isNarrow ? source().offsetHeight : source().offsetWidth),
      write: (px) => this.choose(sourceSide(), px),
      reset: () => this.choose(sourceSide(), undefined),
    });
    /** @returns {HTMLElement} */ const field = () => root.querySelector(".ex-field");
    /** @returns {HTMLElement} */ const tree = () => root.querySelector(".ex-tree");
    this.treeBar = new Splitter("ex-tree-bar", {
      name: "width of the tree", grows: 1,
      axis: () => "x",
      limits: () => ({ least: TREE, most: Math.max(TREE, field().clientWidth - CANVAS) }),
      read: () => tree().offsetWidth,
      write: (px) => this.choose("tree width", px),
      reset: () => this.choose("tree width", undefined),
    });
    this.heightBar = new Splitter("ex-height-bar", {
      name: "height of the view", grows: 1,
      axis: () => "y",
      limits: () => ({ least: LOW, most: 4000 }),
      read: () => root.offsetHeight,
      write: (px) => this.choose(this.#heightKey, px),
      reset: () => this.choose(this.#heightKey, undefined),
    });
    this.apply();
  }

  /** Storage key of the height. A height chosen for a view with one default height does not apply to views with another. */
  get #heightKey() {
    return `height ${this.asked}`;
  }

  /** Whether the panel is a drawer at the bottom of the canvas. */
  get isNarrow() {
    return this.root.classList.contains("ex-narrow");
  }

  /** Whether the panel covers the canvas when it is open. */
  get isDrawer() {
    return this.root.classList.contains("ex-drawer");
  }

  /** Whether the panel is shown. A drawer is closed until a reader opens it or selects something. */
  get isPanelShown() {
    if (!this.isDrawer) return !this.chosen.hidden;
    return Boolean(this.chosen.drawer) || this.isSelected;
  }

  /** Apply and store a size that a reader chose, undefined for the default. @param {string} name @param {number | boolean | undefined} value */
  choose(name, value) {
    this.chosen[name] = value;
    remember(this.chosen);
    this.apply();
  }

  /** Show or hide the panel. */
  turnPanel() {
    const isShown = this.isPanelShown;
    if (!this.isDrawer) return this.choose("hidden", isShown);
    // A drawer that is closed opens again for the next selection.
    this.isSelected = false;
    this.choose("drawer", isShown ? undefined : true);
  }

  /** Open the drawer for a selection; close it when nothing is selected, unless a reader opened it. @param {boolean} isSelected */
  select(isSelected) {
    clearTimeout(this.opening);
    // A double click must not land on a drawer that its first click opened.
    this.opening = setTimeout(() => {
      this.isSelected = isSelected;
      this.#showPanel();
      if (isSelected && this.isDrawer) this.onDrawer();
    }, isSelected ? DOUBLE_CLICK : 0);
  }

  #showPanel() {
    this.root.classList.toggle("ex-alone", !this.isPanelShown);
  }

  /** Show or hide the tree of boxes. */
  turnTree() {
    this.choose("tree", !this.chosen.tree);
  }

  /** Enter or leave full screen. */
  turnFullScreen() {
    const change = document.fullscreenElement ? document.exitFullscreen() : this.root.requestFullscreen();
    // The browser refuses a change before the last one is complete, and the reader sees that nothing changed.
    change.catch(() => {});
  }

  /** Apply the sizes to the parts. */
  apply() {
    const { root, chosen } = this;
    const height = chosen[this.#heightKey];
    const sizes = { "--ex-height": height ?? this.asked, "--ex-aside": chosen.panel, "--ex-below": chosen.below, "--ex-listing": chosen["source beside"], "--ex-listing-above": chosen["source above"], "--ex-tree": chosen["tree width"] };
    put(root, "style", Object.entries(sizes).flatMap(([name, px]) => (px === undefined ? [] : [`${name}:${px}px`])).join(";"));
    this.#showPanel();
  }

  /** Arrange the parts for the available width. */
  measure() {
    const wide = this.root.clientWidth;
    this.root.classList.toggle("ex-drawer", wide < DRAWER);
    this.root.classList.toggle("ex-narrow", wide < NARROW);
    this.root.classList.toggle("ex-slim", wide < SLIM);
    this.#showPanel();
    for (const bar of [this.sourceBar, this.treeBar, this.panelBar, this.heightBar]) bar.tell();
  }
}

/** Return the reader's choices in this browser. A page without storage (a sandboxed frame) starts with the sizes requested from Python. */
function recall() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}");
  } catch {
    return {};
  }
}

function remember(chosen) {
  try {
    localStorage.setItem(KEY, JSON.stringify(chosen));
  } catch {
    // A sandboxed frame has no storage, so the choice lasts until the page is closed.
  }
}
