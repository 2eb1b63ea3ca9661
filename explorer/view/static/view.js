// The view: the reader's choices (step, selection, open boxes) and all parts that depend on them.

import { begin, openMore } from "./canvas/initial_view.js";
import { Camera } from "./canvas/camera.js";
import { Canvas } from "./canvas/canvas.js";
import { glide } from "./canvas/glide.js";
import { hasFocus, html } from "./dom.js";
import { Focus } from "./canvas/focus.js";
import { Heat } from "./scene/heat.js";
import { LowDetail } from "./canvas/low_detail.js";
import { listenToPointer } from "./canvas/input.js";
import { holdKeys, listenToKeys } from "./controls/keys.js";
import { Opening } from "./scene/box_toggle.js";
import { Paths, Placement } from "./scene/placement.js";
import { flowsRight, Turning } from "./scene/direction.js";
import { EdgeValues } from "./scene/edge_values.js";
import { Prediction } from "./exercises/prediction.js";
import { takeOver } from "./controls/view_address.js";
import { Player } from "./controls/player.js";
import { SceneBuilder } from "./scene/scene.js";
import { Selection } from "./controls/selection.js";
import { LeafValues } from "./data/leaf_values.js";
import { OpenBoxes } from "./scene/open_boxes.js";
import { SourceLines } from "./data/source_lines.js";
import { ViewParts } from "./controls/view_parts.js";
import { PaneSizes } from "./controls/pane_sizes.js";
import { Timeline } from "./data/timeline.js";
import { Theme } from "./controls/theme.js";
import { Totals } from "./data/totals.js";
import { Trace } from "./data/trace.js";

/**
 * @typedef {{onSelect?: (node: number) => void, onState?: (state: {step: number, stage: string}) => void,
 *   onOpen?: (boxes: number[]) => void, onPlace?: (boxes: number[]) => void,
 *   onValue?: (node: number) => void, onTab?: () => void, onTurn?: (direction: string) => void, onPredict?: (isOn: boolean) => void, onTurned?: () => void,
 *   onFile?: (extension: string) => Promise<string>}} Callbacks onFile: returns the contents that the kernel writes for a file extension
 * @typedef {Callbacks & {onMoment?: (moment: import("./data/timeline.js").Moment) => void, onBox?: (box: number) => void,
 *   onEnter?: (body: number) => void, side?: string, onCamera?: () => void, onShow?: () => void, onBegin?: () => void, onTheme?: (wanted: string) => void, fit?: () => void,
 *   differs?: (scene: import("./scene/scene.js").Scene) => Map<number, import("./compare/differences.js").Difference>, changes?: (node: number) => string[],
 *   keys?: {key: string, meaning: string, act: () => unknown}[]}} PairCallbacks the calls from one of two views to pair.js, and the marks from pair.js
 */

/** One explorer on the page. */
export class View {
  /** @param {HTMLElement} element @param {any} payload @param {PairCallbacks} callbacks */
  constructor(element, payload, callbacks) {
    this.callbacks = callbacks;
    this.root = html("div", { class: "explorer-view", role: "group", "aria-roledescription": "graph explorer" });
    this.turning = new Turning(this);
    this.theme = new Theme(this.root, payload.options.theme ?? "auto", () => this.#repaint());
    this.sizes = new PaneSizes(this.root, Number(payload.options.height) || 560);
    this.sizes.onDrawer = () => {
      this.selection.reveal();
      this.parts.panel.parts.kernelCode.follow(true);
    };
    this.room = { width: 0, height: 0 };
    this.fitted = false;
    this.resized = new ResizeObserver(() => this.#measure());
    this.player = new Player({ advance: () => this.#advance(), moment: () => this.now, changed: (playing) => this.parts.playing(playing) });
    this.#adopt(payload);
    this.now = this.timeline.at(this.timeline.atPosition(payload.options.position ?? 0));
    element.append(this.root);
    listenToKeys(this);
    takeOver(this);
    this.endings = [holdKeys(this), () => this.theme.end(), () => this.resized.disconnect()];
    this.replace();
    this.sizes.measure();
    if (openMore(this)) this.replace();
    this.theme.paint();
    this.#measure();
  }

  #adopt(payload) {
    this.trace = new Trace(payload);
    this.timeline = new Timeline(this.trace.recording, this.trace.replay);
    this.paths = new Paths(this.trace.layout);
    this.opening?.end();
    this.opening = new Opening(this);
    this.openBoxes = new OpenBoxes(this.trace);
    this.sceneBuilder = new SceneBuilder(this.trace, this.timeline, this.paths);
    this.edgeValues = new EdgeValues(this.trace, this.sceneBuilder);
    this.totals = new Totals(this.trace);
    this.lines = new SourceLines(this.trace);
    this.heat = new Heat(this.totals, this.lines, () => this.show(), payload.options.heat);
    this.open = new Set(this.trace.layout.boxes.flatMap((box, index) => (box.open ? [index] : [])));
    /** @type {Set<number>} boxes that the reader opened */ this.chosen = new Set();
    this.body = 0;
    this.selection = new Selection(this);
    this.prediction = new Prediction(this);
    this.leafValues = new LeafValues(this.trace, this.callbacks.onValue, () => this.show());
    this.focus = new Focus(this);
    this.scene = null;
    this.canvas = new Canvas(this.trace);
    this.camera = new Camera(this.canvas.root, () => this.room, (...sights) => this.#moved(sights));
    this.lowDetail?.end();
    this.lowDetail = new LowDetail(this.canvas, this.camera);
    this.parts?.end();
    this.parts = new ViewParts(this);
    this.stage = this.parts.stage;
    this.resized.disconnect();
    for (const part of [this.root, this.stage, this.parts.timelineSlider.root]) this.resized.observe(part);
    listenToPointer(this);
  }

  #moved(sights) {
    // In the low-detail view a bitmap replaces all elements except the focused item.
    this.canvas.see(...(this.lowDetail.covers ? [] : sights));
    this.lowDetail.later();
    this.parts?.minimap.refresh();
    this.callbacks.onCamera?.();
  }

  /** Compose the boxes again, then show. */
  replace() {
    this.focus.keep(() => {
      this.#place(this.openBoxes.drawn(this.now, this.open, this.chosen));
      this.show();
    });
  }

  #place(open) {
    /** the instant of the placement */ this.settledAt = this.now.instant;
    this.placement = new Placement(this.trace.layout, open, this.trace.layout.bodies[this.body], this.#isRecorded);
    this.canvas.place(this.placement);
  }

  /** Whether no pass has changed the graph yet, so that it has its own layout. */
  get #isRecorded() {
    return this.now.position <= this.trace.replay.change;
  }

  /** Adapt the viewport after parts have appeared or disappeared; a completely visible graph remains so. Return the placement before the first or last change of the graph. */
  #settle() {
    const isSame = this.placement.isRecorded === this.#isRecorded;
    if (isSame && this.openBoxes.areAlike(this.settledAt, this.now.instant)) return;
    this.settledAt = this.now.instant;
    const open = this.openBoxes.drawn(this.now, this.open, this.chosen);
    const { placement } = this;
    const { open: before, size } = placement;
    if (isSame && open.size === before.size && [...open].every((box) => before.has(box))) return;
    const isWhole = this.camera.sees(size);
    const isFitted = this.camera.isFitted(size);
    this.#place(open);
    const isSmall = isWhole || this.camera.holds(this.placement.size);
    if (isSame && isSmall) this.fit();
    return isSame ? undefined : { placement, isSmall, isFitted };
  }

  /** Show the moment on the canvas and around it; a step forward animates edges. */
  show(motion = 0) {
    this.focus.keep(() => this.#draw(motion));
    this.callbacks.onShow?.();
  }

  #draw(motion) {
    // The row of stages is measured, which is fast only while nothing else has changed on the page.
    this.parts.stageChips.show(this.now.stage);
    const before = this.#settle();
    this.scene = this.sceneBuilder.scene(this.now, this.placement);
    const heat = this.heat.shares(this.scene, this.placement);
    const { node, box, matches, standing, isValue } = this.selection;
    const { lineage, gradientLinks, compositions, kernelCode } = this.parts.panel.parts;
    const traced = lineage.lit(this.selection, this.scene, this.placement);
    const linked = new Map([...compositions.lit(node), ...gradientLinks.lit(node, box, this.scene.moment.position)]);
    const asked = this.prediction.exercise?.marked();
    const carried = isValue ? this.edgeValues.lit(standing, this.scene, this.placement) : undefined;
    const lit = asked?.slots ?? kernelCode.lit(this.parts.source.lit(traced?.slots ?? carried?.slots ?? linked));
    this.root.classList.toggle("ex-tracing", Boolean(traced));
    this.root.classList.toggle("ex-predicting", this.prediction.isOn);
    this.differs = this.callbacks.differs?.(this.scene) ?? new Map();
    this.canvas.show(this.scene, { selected: isValue ? -1 : standing, other: this.selection.other, box, otherBox: this.selection.otherBox, matches, heat, lit, along: asked?.edges ?? traced?.edges ?? carried?.edges, veiled: asked?.veiled, differs: this.differs }, motion);
    if (before?.isFitted) this.fit();
    else if (before?.isSmall) this.begin();
    if (before) glide(this.canvas, before.placement);
    this.lowDetail.later();
    this.parts.show(this.now, node, box);
    this.parts.minimap.draw(this.placement, this.scene, this.differs);
    this.focus.rove();
  }

  #measure() {
    this.sizes.measure();
    this.parts.arrange();
    const { clientWidth: width, clientHeight: height } = this.stage;
    const [before, isSeen] = [this.room, this.fitted && this.selection.isInSight];
    this.room = { width, height };
    if (this.fitted) this.camera.resized(before, this.placement.size, flowsRight(this.trace.layout));
    if (isSeen) this.selection.reveal();
    this.parts.timelineSlider.resize(this.parts.timelineSlider.root.clientWidth);
    if (!this.fitted && width > 0) {
      this.fitted = true;
      this.theme.paint();
      this.begin();
      this.callbacks.onBegin?.();
    }
    this.parts.minimap.refresh();
    this.lowDetail.later();
  }

  #repaint() {
    if (!this.scene) return;
    this.lowDetail.paint();
    this.parts.minimap.paint();
    this.parts.minimap.draw(this.placement, this.scene, this.differs);
  }

  /** Go to a step. @param {number} step @param {number} [stage] the preferred stage if several have the step */
  go(step, stage = -1) {
    const wanted = Math.max(0, Math.min(this.timeline.end, step));
    const moment = this.timeline.at(wanted, stage);
    if (moment.step === this.now.step && moment.stage === this.now.stage) return;
    const motion = moment.whole ? 0 : wanted - this.now.step;
    const enters = moment.stage !== this.now.stage;
    this.now = this.prediction.framed(moment);
    this.callbacks.onMoment?.(moment);
    this.show(motion);
    this.selection.follow(enters);
    this.prediction.exercise?.seek();
    this.callbacks.onState?.({ step: moment.step, stage: this.stageName });
  }

  /** Name of the current stage. */
  get stageName() {
    return this.timeline.stages[this.now.stage]?.name ?? "";
  }

  /** Go to a step of a named stage, or to the whole stage; ignore an unknown name. @param {string} name @param {number} [step] */
  goStage(name, step = -1) {
    const stage = this.timeline.named(name, this.now.stage);
    if (this.timeline.has(stage, step)) this.go(step, stage);
    else if (stage >= 0 && stage !== this.now.stage) this.go(this.timeline.entry(stage), stage);
  }

  /** Go some steps forward or back, or to another question. From a whole stage, the first step forward goes to its first decision about the selection. */
  step(by) {
    if (this.prediction.exercise?.step(by)) return;
    const { whole, step, stage } = this.now;
    if (!whole || stage < 0) return this.go(step + by);
    if (by < 0) return this.go(this.timeline.stageOf(step) === stage ? step + by : step);
    const about = this.timeline.firstAbout(stage, this.selection.decisions());
    this.go(about < 0 ? step + by : about);
  }

  /** Go a stage forward or, with −1, back, past the stages that are folded because they changed nothing. @param {number} by */
  stepStage(by) {
    let stage = this.now.stage + by;
    while (this.parts.stageChips.isFolded(stage)) stage += by;
    // The beginning of the last stage is not forward of its steps.
    if (stage >= this.timeline.stages.length) return;
    stage = Math.max(0, stage);
    this.go(this.timeline.entry(stage), stage);
  }

  /** Start or stop playing; at the end, start from the beginning. */
  play() {
    if (!this.player.timer && this.now.step >= this.timeline.end) this.go(0);
    this.player.toggle();
  }

  #advance() {
    this.go(this.now.step + 1);
    return this.now.step < this.timeline.end;
  }

  /** Go to the moment at which a kernel runs or, before a run, is picked. @param {number} kernel */
  goKernel(kernel) {
    const step = this.timeline.ofKernel(kernel, this.now.phase);
    if (step >= 0) this.go(step);
  }

  /** Show another graph: 0 is the top graph, others are function bodies. */
  enter(body) {
    this.body = body;
    this.focus.key = "";
    this.replace();
    this.begin();
    this.parts.showBody(body);
    if (hasFocus(this.root)) this.focus.take();
    this.callbacks.onEnter?.(body);
  }

  /** Show the start of the graph at a legible scale. */
  begin = () => begin(this);

  /** Show the whole graph. */
  fit() {
    if (this.callbacks.fit) return this.callbacks.fit();
    this.camera.fit(this.placement.size);
  }

  /** Switch between dark and light. */
  turnTheme() {
    this.theme.turn();
    this.callbacks.onTheme?.(this.theme.wanted);
  }

  /** Replace the payload by a new one of the same program; keep step, stage, selection, open boxes and camera. */
  update(payload) {
    const { now, open, chosen, body, stageName } = this;
    // All elements are replaced, so focus the canvas if any part of the view had the focus.
    const [hadFocus, { key }] = [hasFocus(this.root), this.focus];
    const [{ node: selected, carried }, { measure }, { direction }] = [this.selection, this.heat, this.trace.layout];
    const { x, y, scale } = this.camera;
    this.prediction.end();
    this.player.stop();
    this.#adopt(payload);
    this.open = new Set([...open].filter((box) => this.trace.layout.boxes[box]?.placed));
    this.chosen = new Set([...chosen].filter((box) => this.open.has(box)));
    this.body = body < this.trace.layout.bodies.length ? body : 0;
    this.selection.node = selected < this.trace.count ? selected : -1;
    if (selected < this.trace.count) this.selection.carried = carried;
    const stage = this.timeline.stages[now.stage]?.name === stageName ? now.stage : this.timeline.named(stageName, -1);
    this.now = this.timeline.at(Math.min(now.step, this.timeline.end), stage);
    Object.assign(this.camera, { x, y, scale });
    this.replace();
    if (this.heat.choices.includes(measure)) this.heat.choose(measure);
    this.theme.paint();
    this.#measure();
    if (this.trace.layout.direction === direction) this.camera.pan(0, 0);
    else this.begin();
    if (this.body) this.parts.showBody(this.body);
    this.focus.key = key;
    this.focus.rove();
    if (hadFocus) this.focus.take();
  }

  /** Remove the view from the page. */
  destroy() {
    this.player.stop();
    this.opening.end();
    this.lowDetail.end();
    this.parts.end();
    for (const end of this.endings) end();
    this.root.remove();
  }
}
