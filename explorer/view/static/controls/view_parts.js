// The parts of the view around the canvas, and their labels.

import { changeIcon, helpBox, iconButton, labelledButton } from "./toolbar.js";
import { counted, grouped } from "../data/number_format.js";
import { hasFocus, html, put, say } from "../dom.js";
import { RovingTabindex } from "./roving_tabindex.js";
import { Menu } from "./menu.js";
import { keyAt } from "../canvas/input.js";
import { Minimap } from "../canvas/minimap.js";
import { Panel } from "../panel/panel.js";
import { StageChips } from "./stage_chips.js";
import { LINES } from "../scene/heat.js";
import { explained, forgetIn } from "../panel/term_tooltips.js";
import { SaveMenu } from "../save/save_menu.js";
import { Sentence, costText } from "./moment_sentence.js";
import { ScopeTree } from "./scope_tree.js";
import { Search } from "./search.js";
import { SourcePane } from "../panel/source_pane.js";
import { TimelineSlider } from "./timeline_slider.js";

/** @type {WeakSet<Document>} pages on which a reader has begun to step */
const hinted = new WeakSet();

const NO_KERNEL = "The kernel that planned this graph has stopped or restarted, so steps are not sent to Python. Run the cell again for a live view.";

/** Maximum depth of the menu and the keys. */
const DEEPEST = 9;
const SPEEDS = [0.5, 1, 2, 4];

/** Page of a view, built once for each payload. */
export class ViewParts {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    const { trace, timeline, root } = view;
    const go = (step) => view.go(step);
    this.minimap = new Minimap(view.camera, view.heat.legend);
    this.stageChips = new StageChips(timeline, (stage) => {
      view.selection.endPair();
      view.go(timeline.entry(stage), stage);
    });
    this.panel = new Panel(trace, timeline, view.sceneBuilder, view.totals, {
      select: (node) => view.selection.select(node, true),
      value: (node) => view.selection.select(node, true, [node]),
      turnValue: () => view.selection.turnValue(),
      go,
      visit: (node) => view.selection.visit(node),
      box: (box) => view.selection.visitBox(box),
      toggle: (box) => view.opening.toggle(box),
      operation: (node) => this.search.openOperation(trace.recording.operations[trace.nodes.operation[node]], node),
      find: (kind, isType) => this.search.openKind(kind, isType),
      kernel: (kernel) => view.goKernel(kernel),
      firstNaN: () => view.selection.visitFirstNaN(),
      leafValue: (node) => view.leafValues.state(node),
      trace: (direction) => view.selection.trace(direction),
      traceDirection: () => view.selection.traceDirection,
      line: (node) => this.showLine(node),
      light: () => this.#light(),
      changes: (node) => view.callbacks.changes?.(node) ?? [],
    });
    new RovingTabindex(this.panel.root, ".ex-decisions button", ["ArrowUp", "ArrowDown"]);
    this.tree = new ScopeTree(view);
    this.source = new SourcePane(view);
    this.timelineSlider = new TimelineSlider(trace, timeline, go);
    this.search = new Search(trace, {
      visitBox: (box) => view.selection.visitBox(box),
      visit: (node) => view.selection.visit(node),
      goDecision: (index) => {
        go(timeline.afterDecision(index));
        const [slot] = view.scene.attention;
        if (view.canvas.stands(`n${slot}`)) view.focus.set(`n${slot}`, false);
      },
      onFound: (nodes, hits) => view.selection.mark(nodes, hits),
      onClose: () => {
        const { isInSight } = view.selection;
        view.focus.take();
        // The drawer that the search hid is shown again.
        if (isInSight) view.selection.reveal();
      },
    });
    this.help = helpBox(view.heat.known, () => this.turnHelp(), view.callbacks.keys);
    this.crumbs = html("div", { class: "ex-crumbs", hidden: true });
    this.sentence = new Sentence(view);
    this.cost = html("div", { class: "ex-cost" });
    this.hint = html("span", { class: "ex-hint", hidden: timeline.end === 0 || hinted.has(document) }, "press ", html("kbd", {}, "."), " to step");
    this.stage = html("div", { class: "ex-stage", tabindex: -1 }, view.lowDetail.root, view.canvas.root, view.heat.legend, view.opening.pending.root, this.minimap.root, this.crumbs, this.search.root);
    this.source.watch(this.stage);
    this.panel.parts.kernelCode.watch(this.stage, (event) => view.scene?.slots.get(Number(keyAt(view, event).slice(1)))?.node ?? -1);
    const over = [this.minimap.root, view.heat.legend, this.crumbs, this.search.root];
    for (const corner of this.minimap.corners) corner.others = over.filter((part) => part !== corner.root);
    view.camera.overlays = () => this.#overlays();
    view.camera.header = () => this.sentence.lines();
    view.camera.covered = () => this.#covered();
    this.bottom = html("div", { class: "ex-bottom", hidden: timeline.end === 0 }, this.#transport(), this.hint, this.timelineSlider.root, html("div", { class: "ex-sum" }, this.cost));
    const of = view.callbacks.side ? `, ${view.callbacks.side}` : "";
    put(root, "aria-label", `explorer: ${trace.recording.title || "recording"}${of}`);
    put(this.stageChips.root, "aria-label", `stages${of}`);
    put(this.panel.root, "aria-label", `why${of}`);
    this.heard = html("div", { class: "ex-heard", role: "status", "aria-live": "polite" });
    this.saveMenu = new SaveMenu(view);
    root.replaceChildren(
      html("div", { class: "ex-top" }, this.stageChips.root, this.#tools(), this.toolMenu.root, this.saveMenu.root, this.saveMenu.problem),
      // The steps precede the panel in tab order, because they belong to the canvas above them.
      html("div", { class: timeline.end ? "ex-main" : "ex-main ex-stepless" }, this.source.root, view.sizes.sourceBar.root, html("div", { class: "ex-field" }, this.tree.root, view.sizes.treeBar.root, html("div", { class: "ex-ground" }, this.sentence.root, this.stage)), this.bottom, view.sizes.panelBar.root, html("div", { class: "ex-beside" }, this.panel.root), this.help),
      view.sizes.heightBar.root,
      this.heard,
    );
  }

  /** Stop all drawing and observers. */
  end() {
    this.minimap.end();
    this.tree.end();
    this.sentence.end();
  }

  /** Show or hide the list of keys. */
  turnHelp() {
    this.help.hidden = !this.help.hidden;
    if (this.help.hidden) this.view.focus.take();
    else this.help.focus();
  }

  /** Highlight the node of the line of code under the pointer. */
  #light() {
    const { canvas, scene, lowDetail } = this.view;
    if (!scene) return;
    const { kernelCode } = this.panel.parts;
    canvas.show(scene, { ...canvas.marks, lit: kernelCode.lit(kernelCode.under) });
    lowDetail.later();
  }

  /** Return the rectangles of the parts that cover the canvas, so that no change is revealed under them. */
  #overlays() {
    const { heat, room } = this.view;
    const { sizes } = this.view;
    const parts = [heat.legend, this.minimap.root, this.search.root];
    const key = `${room.width} ${room.height} ${this.sentence.excess} ${sizes.isDrawer && sizes.isPanelShown} ${heat.legend.textContent} ${heat.legend.className} ${this.minimap.root.className} ${parts.map((part) => part.hidden || part.classList.contains("ex-unseen"))}`;
    // Reading positions lays out the whole page, so read them only if they may have changed. Search results change at any time.
    if (key !== this.overlaid?.key || !this.search.root.hidden) {
      const over = parts.filter((part) => part.offsetWidth > 0 && !part.classList.contains("ex-unseen"));
      const edges = over.map((part) => [part.offsetLeft, part.offsetTop, part.offsetLeft + part.offsetWidth, part.offsetTop + part.offsetHeight]);
      if (this.sentence.excess) edges.push([0, 0, room.width, this.sentence.excess]);
      const [right, bottom] = this.#covered();
      if (right || bottom) edges.push([right ? room.width - right : 0, bottom ? room.height - bottom : 0, room.width, room.height]);
      this.overlaid = { key, edges };
    }
    return this.overlaid.edges;
  }

  /** Move the choice of colours into the toolbar if the view is wide, else into the menu. */
  arrange() {
    const { heat, root, sizes } = this.view;
    const home = sizes.isDrawer ? this.toolMenu.root : root.querySelector(".ex-tools");
    if (heat.select.parentElement !== home) home.prepend(heat.select);
  }

  /** Return the px that the drawer covers at the right and at the bottom of the canvas. */
  #covered() {
    const { root, sizes } = this.view;
    /** @type {HTMLElement} */ const drawer = root.querySelector(".ex-beside");
    if (!sizes.isDrawer || !sizes.isPanelShown) return [0, 0];
    return sizes.isNarrow ? [0, drawer.offsetHeight] : [drawer.offsetWidth, 0];
  }

  #tools() {
    const { view } = this;
    const more = iconButton("more", "more tools: colours, boxes, save, help", () => {});
    this.toolMenu = new Menu(more, [
      ...(view.trace.layout.boxes.length > 1
        ? [
            this.#depth(),
            labelledButton("open", "open all boxes", "e", () => view.opening.all(true)),
            labelledButton("close", "close all boxes", "c", () => view.opening.all(false)),
            labelledButton("tree", "show or hide the tree of boxes", "s", () => this.turnTree()),
          ]
        : []),
      ...(view.turning.isPossible ? [labelledButton("turn", "flow to the right, or down", "d", () => view.turning.turn())] : []),
      this.saveMenu.button,
      ...(view.prediction.isPossible ? [labelledButton("predict", "predict what a stage decides", "g", () => view.prediction.toggle())] : []),
      ...(view.callbacks.onTab ? [labelledButton("tab", "open in its own tab", "", () => view.callbacks.onTab())] : []),
      ...(document.fullscreenEnabled ? [labelledButton("screen", "full screen", "F", () => view.sizes.turnFullScreen())] : []),
      labelledButton("theme", "dark or light", "", () => view.turnTheme()),
      labelledButton("help", "outlines and keys", "?", () => this.turnHelp()),
    ], { name: "more tools", style: "ex-tool-menu" });
    const tools = html(
      "div",
      { class: "ex-tools", role: "toolbar", "aria-label": "tools" },
      view.heat.select,
      html("span", { class: "ex-gone-kernel", role: "status", tabindex: 0, title: NO_KERNEL, "aria-label": NO_KERNEL }, "no kernel"),
      iconButton("search", "search (/)", () => this.search.open()),
      ...(view.lines.isKnown ? [iconButton("source", "show or hide the source (l)", () => this.turnSource())] : []),
      iconButton("fit", "fit into view (f)", () => view.fit()),
      iconButton("panel", "show or hide the panel (w)", () => view.sizes.turnPanel()),
      this.toolMenu.button,
    );
    new RovingTabindex(tools, "button", ["ArrowLeft", "ArrowRight"]);
    return tools;
  }

  /** Show or hide the tree of boxes, and focus it when it is shown. */
  turnTree() {
    this.view.sizes.turnTree();
    this.tree.show();
    if (this.tree.isShown) this.tree.take();
    else this.view.focus.take();
  }

  /** Show or hide the source, and focus it when it is shown. */
  turnSource() {
    const { view, source } = this;
    if (!view.lines.isKnown) return;
    const isShown = !source.isShown;
    view.sizes.choose("source", isShown);
    if (!isShown && view.heat.measure === LINES) view.heat.choose("");
    else view.show();
    if (isShown) source.take();
    else view.focus.take();
  }

  /** Show the line that recorded a node. @param {number} node */
  showLine(node) {
    const { view, source } = this;
    view.sizes.choose("source", true);
    view.selection.select(node);
    view.show();
    source.take();
  }

  /** Return a menu that opens boxes down to a depth, if there is more than one depth. */
  #depth() {
    const deepest = this.view.opening.depths.reduce((most, depth) => Math.max(most, depth), 0) + 1;
    if (deepest < 2) return false;
    const options = ["depth", ...Array(Math.min(deepest, DEEPEST) + 1).keys()].map((depth) => html("option", { value: depth }, typeof depth === "number" ? `depth ${depth}` : depth));
    const change = (event) => {
      const { value } = event.target;
      event.target.selectedIndex = 0;
      if (value !== "depth") this.view.opening.to(Number(value));
    };
    return html("select", { class: "ex-depth", title: "open boxes down to a depth (0 … 9)", "aria-label": "open boxes down to a depth", change }, ...options);
  }

  #transport() {
    const { view } = this;
    this.playButton = iconButton("play", "play (p)", () => view.play());
    const options = SPEEDS.map((speed) => html("option", { value: speed, selected: speed === view.player.speed }, `${speed}×`));
    const change = (event) => view.player.retime(Number(event.target.value));
    const steps = html(
      "div",
      { class: "ex-transport", role: "toolbar", "aria-label": "steps" },
      iconButton("first", "a stage back ([)", () => view.stepStage(-1)),
      iconButton("back", "a step back (,)", () => view.step(-1)),
      this.playButton,
      iconButton("forward", "a step forward (.)", () => view.step(1)),
      iconButton("last", "a stage forward (])", () => view.stepStage(1)),
      html("select", { class: "ex-speed", title: "speed: 1× is 3 s a decision, 0.8 s a kernel", "aria-label": "speed of play", change }, ...options),
    );
    new RovingTabindex(steps, "button", ["ArrowLeft", "ArrowRight"]);
    return steps;
  }

  /** Show a moment in all parts around the canvas. @param {import("../data/timeline.js").Moment} moment @param {number} selected a node @param {number} box */
  show(moment, selected, box) {
    const { trace, timeline } = this.view;
    this.#begun(moment);
    forgetIn(this.view.root);
    this.timelineSlider.show(moment, this.sentence.show(moment, this.panel.parts));
    this.#hear(selected, box);
    this.tree.show();
    this.source.show();
    const held = hasFocus(this.panel.root);
    this.panel.show(moment, selected, box, this.view.selection, this.view.prediction);
    if (held && !hasFocus(this.panel.root)) this.panel.root.focus({ preventScroll: true });
    this.timelineSlider.mark(selected >= 0 ? trace.decisionsOf(selected) : []);
    const cost = costText(trace, timeline, moment);
    if (this.cost.textContent !== cost) this.cost.replaceChildren(...explained(cost));
  }

  /** Announce the selection to screen readers, since the focus does not move; the details are in the panel. */
  #hear(selected, box) {
    const { trace } = this.view;
    const { isValue } = this.view.selection;
    const chosen = `${selected}|${box}|${isValue}`;
    if (this.chosen === chosen) return;
    const isFirst = this.chosen === undefined;
    this.chosen = chosen;
    this.view.sizes.select(selected >= 0 || box >= 0);
    if (isFirst) return;
    const decisions = selected >= 0 ? trace.decisionsOf(selected) : [];
    const declined = decisions.filter((index) => trace.decisions[index].verdict !== "applied").length;
    const subject = isValue ? `the value ${trace.valueName(selected, this.view.now.position)}` : selected >= 0 ? trace.namedLabel(selected) : box >= 0 ? `${trace.layout.boxes[box].kind} ${trace.layout.boxes[box].text[0]}` : "";
    const counts = selected >= 0 ? `: ${counted(decisions.length, "decision")}, ${grouped(declined)} declined` : "";
    say(this.heard, subject ? `selected ${subject}${counts}` : "nothing is selected");
  }

  /** Remove the hint on how to begin once the reader has begun; later views on the page do not show it. */
  #begun(moment) {
    if (this.hint.hidden || (moment.step === 0 && moment.stage <= 0)) return;
    this.hint.hidden = true;
    hinted.add(document);
  }

  /** Show whether steps are played; screen readers do not announce every step. @param {boolean} playing */
  playing(playing) {
    changeIcon(this.playButton, playing ? "pause" : "play", playing ? "pause (p)" : "play (p)");
    this.sentence.playing(playing);
  }

  /** Show the path to the graph on the canvas if it is not the top graph. @param {number} body */
  showBody(body) {
    const { trace } = this.view;
    const { callee, body: graphOf } = trace.nodes;
    /** @type {number[]} */
    const path = [];
    // a body with several calls is shown at its first call
    for (let at = body; at > 0 && !path.includes(at); at = graphOf[callee.indexOf(at)] ?? 0) path.unshift(at);
    const link = (/** @type {number} */ graph, /** @type {string} */ name) =>
      html("button", { type: "button", class: "ex-link", click: () => this.view.enter(graph) }, name);
    const parts = path.flatMap((graph) => {
      const { name } = trace.recording.bodies[graph];
      return [" › ", graph === body ? html("b", {}, name) : link(graph, name)];
    });
    this.crumbs.hidden = body === 0;
    this.crumbs.replaceChildren(link(0, trace.recording.title || "top"), ...parts);
  }
}
