// The view: what the reader chose (step, selection, open boxes), and everything that follows from it.

import { Camera } from "./camera.js";
import { Canvas } from "./canvas.js";
import { changeIcon, costText, helpBox, iconButton, saying, themeNow, watchTheme } from "./chrome.js";
import { html, put, say, visible } from "./dom.js";
import { around } from "./frames.js";
import { listenToKeys, listenToPointer } from "./input.js";
import { Minimap } from "./minimap.js";
import { Panel } from "./panel.js";
import { Paths, Placement } from "./place.js";
import { Rail } from "./rail.js";
import { Director } from "./scene.js";
import { Search } from "./search.js";
import { Story } from "./story.js";
import { Strip } from "./strip.js";
import { Trace } from "./trace.js";
import { focusable, neighbour } from "./walk.js";

/**
 * @typedef {{onSelect?: (node: number) => void, onState?: (state: {step: number, stage: string}) => void,
 *   onOpen?: (boxes: number[]) => void}} Callbacks
 */

/** One explorer on the page. */
export class View {
  /** @param {HTMLElement} element @param {any} payload @param {Callbacks} callbacks */
  constructor(element, payload, callbacks) {
    this.callbacks = callbacks;
    this.theme = payload.options.theme ?? "auto";
    this.root = html("div", { class: "explorer-view", "data-lm-suppress-shortcuts": "true", role: "application", "aria-roledescription": "graph explorer" });
    this.room = { width: 0, height: 0 };
    this.resized = new ResizeObserver(() => this.#measure());
    this.endTheme = watchTheme(() => this.#paintTheme());
    this.timer = 0;
    this.speed = 1;
    this.#adopt(payload);
    this.now = this.story.at(this.story.atPosition(payload.options.position ?? 0));
    this.#paintTheme();
    element.append(this.root);
    this.#replace();
    this.fitted = false;
    this.#measure();
  }

  #adopt(payload) {
    this.trace = new Trace(payload);
    this.story = new Story(payload.recording);
    this.paths = new Paths(payload.layout);
    this.director = new Director(this.trace, this.story, this.paths);
    this.open = new Set(payload.layout.boxes.flatMap((box, index) => (box.open ? [index] : [])));
    this.body = 0;
    this.selected = -1;
    this.box = -1;
    this.focusKey = "";
    this.halos = new Map();
    this.#build(payload.options);
  }

  #build(options) {
    this.canvas = new Canvas(this.trace);
    const go = (step) => this.go(step);
    this.camera = new Camera(this.canvas.world, () => this.room, () => this.minimap?.refresh());
    this.minimap = new Minimap(this.camera);
    this.rail = new Rail(this.story, (chapter) => this.go(this.story.entry(chapter), chapter));
    this.panel = new Panel(this.trace, this.story, this.director, { select: (node) => this.select(node, true), go, visit: (node) => this.visit(node) });
    this.strip = new Strip(this.trace, this.story, go);
    this.search = new Search(this.trace, {
      visit: (node) => this.visit(node),
      goDecision: (index) => this.go(this.story.afterDecision(index)),
      onFound: (nodes) => this.#found(nodes),
      onClose: () => this.focusCanvas(),
    });
    this.helpBox = helpBox(() => this.help());
    this.crumbs = html("div", { class: "ex-crumbs", hidden: true });
    this.stage = html("div", { class: "ex-stage", tabindex: -1 }, this.canvas.root, this.minimap.root, this.crumbs, this.search.root, this.helpBox);
    put(this.root, "aria-label", `explorer: ${visible(this.trace.recording.title || "recording")}`);
    put(this.root, "style", `--ex-height:${Number(options.height) || 560}px`);
    this.say = html("div", { class: "ex-say", role: "status", "aria-live": "polite" });
    this.cost = html("div", { class: "ex-cost" });
    this.root.replaceChildren(
      html("div", { class: "ex-top" }, this.rail.root, this.#tools()),
      this.say,
      html("div", { class: "ex-main" }, this.stage, this.panel.root),
      html("div", { class: "ex-bottom" }, this.#transport(), this.strip.root, this.cost),
    );
    this.root.querySelector(".ex-bottom").hidden = this.story.end === 0;
    this.resized.disconnect();
    this.resized.observe(this.stage);
    this.resized.observe(this.strip.root);
    if (!this.heard) listenToKeys(this);
    this.heard = true;
    listenToPointer(this);
  }

  #tools() {
    return html(
      "div",
      { class: "ex-tools", role: "toolbar", "aria-label": "tools" },
      iconButton("search", "search (/)", () => this.search.open()),
      ...(this.trace.layout.boxes.length > 1 ? [iconButton("open", "open all boxes (e)", () => this.openAll(true)), iconButton("close", "close all boxes (c)", () => this.openAll(false))] : []),
      iconButton("fit", "fit into view (f)", () => this.fit()),
      iconButton("theme", "dark or light", () => this.setTheme(themeNow(this.theme) === "dark" ? "light" : "dark")),
      iconButton("help", "keys (?)", () => this.help()),
    );
  }

  #transport() {
    this.playButton = iconButton("play", "play (p)", () => this.play());
    const speeds = [0.5, 1, 2, 4, 8].map((speed) => html("option", { value: speed, selected: speed === this.speed }, `${speed}×`));
    const speed = html("select", { class: "ex-speed", title: "steps a second", "aria-label": "steps a second", change: (event) => this.#retime(Number(event.target.value)) }, ...speeds);
    return html(
      "div",
      { class: "ex-transport", role: "toolbar", "aria-label": "steps" },
      iconButton("first", "a stage back ([)", () => this.chapter(-1)),
      iconButton("back", "a step back (,)", () => this.step(-1)),
      this.playButton,
      iconButton("forward", "a step forward (.)", () => this.step(1)),
      iconButton("last", "a stage forward (])", () => this.chapter(1)),
      speed,
    );
  }

  /** Compose the boxes again, then show. */
  #replace() {
    this.placement = new Placement(this.trace.layout, this.open, this.trace.layout.bodies[this.body]);
    this.canvas.place(this.placement);
    this.#show();
  }

  #show(motion = 0) {
    this.scene = this.director.scene(this.now, this.placement);
    this.canvas.show(this.scene, { selected: this.selected, box: this.box, halos: this.halos }, motion);
    this.rail.show(this.now.chapter);
    this.#showSaying();
    this.#showPanel();
    say(this.cost, costText(this.trace, this.story, this.now));
    this.minimap.draw(this.placement, this.scene);
    this.#rove();
  }

  #showSaying() {
    const { place, verdict, fragments } = saying(this.trace, this.story, this.now);
    const name = this.story.chapters[this.now.chapter]?.name ?? "";
    const mark = verdict && html("span", { class: `ex-verdict ex-mark-${verdict}` }, verdict === "applied" ? "✓ applied" : "✗ declined");
    const words = fragments.map(({ text, node }) => (node >= 0 ? this.panel.link(node, text) : text));
    this.say.replaceChildren(html("b", {}, visible(name)), " ", html("span", { class: "ex-soft" }, place), " ", ...(mark ? [mark, " "] : []), html("span", { class: "ex-sentence" }, ...words));
    this.strip.show(this.now, `${name} ${place}: ${fragments.map(({ text }) => text).join("")}`);
  }

  #showPanel() {
    const held = this.panel.root.contains(document.activeElement);
    this.panel.show(this.now, this.selected);
    if (held) this.panel.root.focus({ preventScroll: true });
    this.strip.mark(this.selected >= 0 ? this.trace.decisionsOf(this.selected) : []);
  }

  /** Keep exactly one item of the canvas in the tab order. */
  #rove() {
    if (!this.canvas.element(this.focusKey)?.isConnected) this.focusKey = focusable(this.canvas, this.scene)[0] ?? "";
    const element = this.canvas.element(this.focusKey);
    if (element === this.tabStop) return;
    if (this.tabStop) put(this.tabStop, "tabindex", -1);
    if (element) put(element, "tabindex", 0);
    this.tabStop = element;
  }

  #measure() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    this.room = { width, height };
    this.strip.resize(this.strip.root.clientWidth);
    if (!this.fitted && width > 0) {
      this.fitted = true;
      this.camera.fit(this.placement.size, true);
    }
    this.minimap.refresh();
  }

  #paintTheme() {
    const followed = this.theme !== "light" && this.theme !== "dark" && Boolean(document.body.dataset.jpThemeLight);
    put(this.root, "data-theme", themeNow(this.theme));
    put(this.root, "data-follow", followed && "jupyterlab");
    if (this.scene) this.minimap.draw(this.placement, this.scene);
  }

  /** Go to a step. @param {number} step @param {number} [chapter] the stage wanted, where several share the step */
  go(step, chapter = -1) {
    const wanted = Math.max(0, Math.min(this.story.end, step));
    const moment = this.story.at(wanted, chapter);
    if (moment.step === this.now.step && moment.chapter === this.now.chapter) return;
    const motion = wanted - this.now.step;
    this.now = moment;
    this.#show(motion);
    this.#follow();
    this.callbacks.onState?.({ step: moment.step, stage: this.stageName });
  }

  /** The name of the stage that is shown. */
  get stageName() {
    return this.story.chapters[this.now.chapter]?.name ?? "";
  }

  /** Go to a stage by its name; an unknown name is left alone. */
  goStage(name) {
    const chapter = this.story.named(name, this.now.chapter);
    if (chapter >= 0 && chapter !== this.now.chapter) this.go(this.story.entry(chapter), chapter);
  }

  /** Go some steps forward or back. */
  step(by) {
    this.go(this.now.step + by);
  }

  /** Go some stages forward or back. */
  chapter(by) {
    const chapter = Math.max(0, Math.min(this.story.chapters.length - 1, this.now.chapter + by));
    this.go(this.story.entry(chapter), chapter);
  }

  /** Start or stop playing. */
  play() {
    if (!this.timer && this.now.step >= this.story.end) this.go(0);
    this.#setTimer(!this.timer);
  }

  #setTimer(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => (this.now.step < this.story.end ? this.step(1) : this.#setTimer(false)), 1000 / this.speed) : 0;
    changeIcon(this.playButton, on ? "pause" : "play", on ? "pause (p)" : "play (p)");
    put(this.say, "aria-live", on ? "off" : "polite");
  }

  #retime(speed) {
    this.speed = speed;
    if (this.timer) this.#setTimer(true);
  }

  /** Bring what changed into sight, by the least motion. */
  #follow() {
    const rects = this.scene.attention.map((slot) => this.placement.shows(slot)).filter(Boolean);
    if (rects.length) this.camera.reveal(around(rects, 22));
  }

  /** Select a node, −1 for none; `seek` opens the boxes around it and brings it into sight. */
  select(node, seek = false) {
    const changed = node !== this.selected;
    this.selected = node >= 0 && node < this.trace.count ? node : -1;
    this.box = -1;
    if (seek && this.selected >= 0) this.#seek(this.selected);
    else this.#show();
    if (changed) this.callbacks.onSelect?.(this.selected);
  }

  #seek(node) {
    const slot = this.trace.slotOf[this.trace.origin(node)];
    if (slot < 0) return this.#show();
    const body = this.trace.nodes.body[node];
    const around_ = this.paths.around(slot).filter((box) => !this.open.has(box));
    for (const box of around_) this.open.add(box);
    if (around_.length || body !== this.body) {
      this.body = body;
      this.#replace();
      if (around_.length) this.callbacks.onOpen?.([...this.open]);
      this.#showCrumbs();
    } else this.#show();
    const rect = this.placement.shows(slot);
    if (rect) this.camera.reveal(around([rect], 22));
    if (this.scene.slots.has(slot)) this.#focus(`n${slot}`, false);
  }

  /** Select a node and go to a moment at which it is there, if it is not. */
  visit(node) {
    const { born, gone } = this.trace.nodes;
    if (!this.trace.exists(node, this.now.position)) {
      this.go(this.story.afterDecision(born[node] >= this.now.position ? born[node] : gone[node]));
    }
    this.select(node, true);
  }

  /** What a click on the canvas means. @param {string} key "n7", "b2" or "" */
  pick(key) {
    if (key) this.#focus(key, true);
    if (key[0] === "n") return this.select(this.scene.slots.get(Number(key.slice(1))).node);
    this.box = key ? Number(key.slice(1)) : -1;
    if (this.selected >= 0) this.select(-1);
    if (key) this.box = Number(key.slice(1));
    this.#show();
  }

  #focus(key, real) {
    this.focusKey = key;
    this.#rove();
    const element = this.canvas.element(key);
    if (real || this.root.contains(document.activeElement)) element?.focus({ preventScroll: true });
  }

  /** Give the canvas the keyboard. */
  focusCanvas() {
    if (this.focusKey) this.#focus(this.focusKey, true);
    else this.stage.focus({ preventScroll: true });
  }

  /** Walk along an edge or sideways. */
  walk(arrow) {
    const key = neighbour(this.canvas, this.scene, this.focusKey, arrow);
    if (!key) return;
    this.#focus(key, true);
    const [x, y, w, h] = this.canvas.rect(key);
    this.camera.reveal([x - 20, y - 20, x + w + 20, y + h + 20]);
  }

  /** Enter: select the focused node (again: enter the call), or open and close the focused box. */
  activate() {
    const key = this.focusKey;
    if (key[0] === "b") return this.toggle(Number(key.slice(1)));
    const mark = this.scene.slots.get(Number(key.slice(1)));
    if (mark && mark.node === this.selected) return this.enterOrToggle(key);
    if (mark) this.select(mark.node);
  }

  /** A double click: open or close a box, enter a call. */
  enterOrToggle(key) {
    if (key[0] === "b") return this.toggle(Number(key.slice(1)));
    const node = this.scene.slots.get(Number(key.slice(1)))?.node ?? -1;
    const callee = this.trace.nodes.callee[node] ?? -1;
    if (callee >= 0 && this.trace.layout.bodies[callee] !== undefined) this.enter(callee);
  }

  /** Show another graph: 0 is the top, others are functions' bodies. */
  enter(body) {
    this.body = body;
    this.focusKey = "";
    this.#replace();
    this.camera.fit(this.placement.size, true);
    this.#showCrumbs();
    if (this.root.contains(document.activeElement)) this.focusCanvas();
  }

  #showCrumbs() {
    this.crumbs.hidden = this.body === 0;
    if (this.crumbs.hidden) return;
    const top = html("button", { type: "button", class: "ex-link", click: () => this.enter(0) }, visible(this.trace.recording.title || "top"));
    this.crumbs.replaceChildren(top, " › ", html("b", {}, visible(this.trace.recording.bodies[this.body].name)));
  }

  /** Open or close one box; what is around it moves away, nothing changes its order. */
  toggle(box, open = !this.open.has(box)) {
    if (this.open.has(box) === open || box === this.placement.outermost) return false;
    if (open) this.open.add(box);
    else this.open.delete(box);
    this.#reopened(`b${box}`);
    return true;
  }

  #reopened(key) {
    const held = this.stage.contains(document.activeElement);
    const before = this.canvas.rect(key);
    this.#replace();
    const after = this.canvas.rect(key);
    if (before && after) this.camera.pan((before[0] + before[2] / 2 - after[0] - after[2] / 2) * this.camera.scale, (before[1] - after[1]) * this.camera.scale);
    if (after) this.#focus(key, held);
    this.callbacks.onOpen?.([...this.open]);
  }

  /** Open or close the focused box; false where the focus is on no box, or it is so already. */
  toggleFocused(open) {
    if (this.focusKey[0] === "b") return this.toggle(Number(this.focusKey.slice(1)), open);
    const around_ = this.paths.around(Number(this.focusKey.slice(1)))[0];
    return !open && this.focusKey !== "" && around_ !== undefined && this.toggle(around_, false);
  }

  /** Open or close every box of this canvas. */
  openAll(open) {
    const { boxes } = this.trace.layout;
    this.open = new Set(boxes.flatMap((box, index) => (open || box.parent < 0 ? [index] : [])));
    this.#reopened(this.focusKey);
    this.fit();
  }

  /** Replace the open boxes, as Python or a link of widgets does. @param {number[]} boxes */
  setOpen(boxes) {
    const wanted = new Set([...boxes, ...this.trace.layout.bodies]);
    if (wanted.size === this.open.size && [...wanted].every((box) => this.open.has(box))) return;
    this.open = wanted;
    this.#replace();
  }

  /** Show the whole graph. */
  fit() {
    this.camera.fit(this.placement.size);
  }

  /** @param {string} theme "auto", "light" or "dark" */
  setTheme(theme) {
    this.theme = theme;
    this.#paintTheme();
  }

  /** Show or hide the list of keys. */
  help() {
    this.helpBox.hidden = !this.helpBox.hidden;
    if (this.helpBox.hidden) this.focusCanvas();
    else this.helpBox.focus();
  }

  /** Close what is open, else leave the selection, else leave the function. */
  escape() {
    if (!this.helpBox.hidden) this.help();
    else if (!this.search.root.hidden) this.search.close();
    else if (this.selected >= 0 || this.box >= 0) this.select(-1);
    else if (this.body !== 0) this.enter(0);
  }

  #found(nodes) {
    this.halos = new Map(nodes.map((node) => [this.trace.slotOf[node], "match"]));
    this.#show();
  }

  /** Take a new payload of the same program; step, stage, selection, open boxes and camera stay. */
  update(payload) {
    const { now, selected, open, body, stageName } = this;
    const camera = [this.camera.x, this.camera.y, this.camera.scale];
    this.#adopt(payload);
    this.open = new Set([...open].filter((box) => box < this.trace.layout.boxes.length));
    this.body = body < this.trace.layout.bodies.length ? body : 0;
    this.selected = selected < this.trace.count ? selected : -1;
    const chapter = this.story.chapters[now.chapter]?.name === stageName ? now.chapter : this.story.named(stageName, -1);
    this.now = this.story.at(Math.min(now.step, this.story.end), chapter);
    [this.camera.x, this.camera.y, this.camera.scale] = camera;
    this.#paintTheme();
    this.#replace();
    this.#measure();
    this.camera.pan(0, 0);
  }

  /** Take the view off the page. */
  destroy() {
    clearInterval(this.timer);
    this.resized.disconnect();
    this.endTheme();
    this.root.remove();
  }
}
