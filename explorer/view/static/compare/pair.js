// Two explorers side by side, with synchronised cameras, steps, selections and open boxes, and marked differences.

import { Differences } from "./differences.js";
import { html } from "../dom.js";
import { PairHead } from "./header.js";
import { Theme } from "../controls/theme.js";
import { CameraSync } from "./camera_sync.js";
import { unpack } from "../data/unpack.js";
import { View } from "../view.js";

const TIES = ["nodes", "steps", "off"];

/** Two views and their header. */
export class Pair {
  /**
   * @param {HTMLElement} element @param {{comparison: any, payloads: any[], tied?: string}} data
   * @param {{sides?: import("../view.js").Callbacks[], onTied?: (tied: string) => void}} callbacks
   */
  constructor(element, { comparison, payloads, tied = "nodes" }, callbacks = {}) {
    this.tied = tied;
    this.callbacks = callbacks;
    this.following = false;
    this.place = -1;
    this.views = [];
    this.root = html("div", { class: "explorer-view ex-pair", role: "group", "aria-label": "two explorers side by side" });
    this.theme = new Theme(this.root, payloads[0].options.theme ?? "auto", () => {});
    this.theme.paint();
    this.head = new PairHead(this, comparison);
    const sides = payloads.map((_, side) => html("div", { class: "ex-side" }, this.head.titles[side]));
    this.root.append(this.head.root, html("div", { class: "ex-sides" }, ...sides));
    element.append(this.root);
    payloads.forEach((payload, side) => this.views.push(new View(sides[side], payload, this.#hear(side, callbacks.sides?.[side] ?? {}))));
    this.adopt(comparison);
    this.views[0].go(comparison.start[0]);
    this.#begun();
  }

  /** Focus the node of the first difference, or the first node if there is no difference. */
  take() {
    const [first] = this.differences.stops();
    this.views[first?.side ?? 0].root.querySelector("[data-key][tabindex='0']")?.focus({ preventScroll: true });
  }

  /** Bring the first difference into view, once both views have their first sizes, unless a node is selected. */
  #begun() {
    const [first] = this.differences?.stops() ?? [];
    if (first && this.views.every(({ fitted, selection }) => fitted && selection.node < 0)) this.views[first.side].selection.seek(first.node);
  }

  /** Replace the comparison after the views' recordings changed. */
  adopt(comparison) {
    this.differences = new Differences(comparison, this.views);
    this.cameraSync = new CameraSync(this.views, this.differences);
    this.head.miss(0, "", "");
    this.steps = unpack(comparison.steps);
    this.head.count(comparison);
    for (const view of this.views) view.show();
    this.#align(0);
  }

  /** Return the callbacks of a view, extended to notify this pair. */
  #hear(side, own) {
    const tell = (name, act) => (...values) => {
      own[name]?.(...values);
      this.#follow(() => act(...values));
    };
    return {
      ...own,
      onMoment: (moment) => this.#moved(side, moment),
      onState: tell("onState", () => this.cameraSync.align(side)),
      onSelect: tell("onSelect", (node) => this.#selected(side, node)),
      onBox: (box) => this.#follow(() => this.#boxed(side, box)),
      onOpen: tell("onOpen", (boxes) => this.#opened(side, boxes)),
      onEnter: (body) => this.#follow(() => this.#entered(side, body)),
      onCamera: () => this.#align(side),
      onTheme: (wanted) => [this, this.views[1 - side]].forEach(({ theme }) => theme.set(wanted)),
      onShow: () => this.head.later(),
      onBegin: () => this.#begun(),
      fit: () => this.#fit(side),
      side: ["before", "after"][side],
      differs: (scene) => this.differences?.marks(side, scene) ?? new Map(),
      changes: (node) => this.differences?.changes(side, node) ?? [],
      keys: [
        { key: "d", meaning: "the next difference", act: () => this.walk(1) },
        { key: "D", meaning: "the previous difference", act: () => this.walk(-1) },
        { key: "t", meaning: "synchronise by nodes, by steps, not at all", act: () => this.tieBy(TIES[(TIES.indexOf(this.tied) + 1) % TIES.length]) },
        { key: "o", meaning: "to the other graph", act: () => this.views[1 - side].focus.take() },
      ],
    };
  }

  /** Run an action on the other view, unless the action is already such a repetition. */
  #follow(act) {
    if (this.following || this.tied === "off" || !this.cameraSync) return;
    this.following = true;
    try {
      act();
    } finally {
      this.following = false;
    }
  }

  /** Move the other view before one view shows a new moment, so that each knows the moments of both. */
  #moved(side, { step, stage, whole }) {
    const other = this.views[1 - side];
    if (this.following || !this.cameraSync) return;
    const alike = whole ? other.timeline.named(this.views[side].timeline.stages[stage]?.name, other.now.stage) : -1;
    const target = this.tied === "off" ? other.now.step : alike >= 0 ? other.timeline.entry(alike) : this.steps[this.tied][side][step];
    const stays = this.tied === "off" || (target === other.now.step && (alike < 0 || alike === other.now.stage));
    this.following = true;
    try {
      if (stays) other.show();
      else other.go(target, alike);
    } finally {
      this.following = false;
    }
  }

  #selected(side, node) {
    const partner = node < 0 ? -1 : this.differences.partner(side, node);
    const other = this.views[1 - side];
    other.selection.select(partner, partner >= 0);
    this.#hold(side, partner < 0 ? node : -1);
    this.cameraSync.align(side);
  }

  /** Align a node that exists on one side only with its nearest counterpart, and report this; −1 ends it. */
  #hold(side, node) {
    const near = this.cameraSync.hold(side, node);
    const [own, other] = [this.views[side].trace, this.views[1 - side].trace];
    this.head.miss(1 - side, node < 0 ? "" : own.namedLabel(node), near < 0 ? "" : other.namedLabel(near));
  }

  #boxed(side, box) {
    const partner = this.cameraSync.boxes[side].get(box) ?? -1;
    const other = this.views[1 - side];
    if (partner >= 0) other.selection.visitBox(partner);
    else other.selection.select(-1);
    this.#hold(side, -1);
    this.cameraSync.align(side);
  }

  #opened(side, boxes) {
    const other = this.views[1 - side];
    other.opening.set([...this.#wanted(side, new Set(boxes))], () => {
      this.callbacks.sides?.[1 - side]?.onOpen?.([...other.open]);
      this.cameraSync.align(side);
    });
  }

  /** Return the boxes to open on the other side: the counterparts of open boxes, or all or none if this side has all or none open. */
  #wanted(side, open) {
    const [own, other] = [this.views[side], this.views[1 - side]];
    const inner = own.trace.layout.boxes.flatMap((box, index) => (box.parent >= 0 ? [index] : []));
    if (inner.every((box) => open.has(box))) return other.trace.layout.boxes.keys();
    if (!inner.some((box) => open.has(box))) return [];
    const wanted = new Set(other.open);
    for (const box of inner) {
      const partner = this.cameraSync.boxes[side].get(box) ?? -1;
      // The correspondence must hold in both directions; otherwise two boxes of one side would control one box of the other.
      if (partner < 0 || this.cameraSync.boxes[1 - side].get(partner) !== box) continue;
      // Also open the surrounding boxes, because the other graph may be nested differently.
      if (open.has(box)) for (const each of [partner, ...other.paths.outside(partner)]) wanted.add(each);
      else wanted.delete(partner);
    }
    return wanted;
  }

  #entered(side, body) {
    const partner = this.differences.body(side, body);
    if (partner >= 0 && partner !== this.views[1 - side].body) this.views[1 - side].enter(partner);
  }

  #fit(side) {
    const scales = this.views.map(({ camera, placement }) => camera.whole(placement.size));
    // Synchronised cameras share one scale, so the graph that needs more room determines it.
    const wide = this.tied === "off" ? side : scales[0] <= scales[1] ? 0 : 1;
    this.views[wide].camera.fit(this.views[wide].placement.size);
  }

  #align(side) {
    this.#follow(() => this.cameraSync.align(side));
  }

  /** Change how the views are synchronised; the second view moves to the moment and selection of the first. @param {string} tied */
  tieBy(tied) {
    if (tied === this.tied || !TIES.includes(tied)) return;
    this.tied = tied;
    this.head.tie(tied);
    this.callbacks.onTied?.(tied);
    // Without synchronisation no counterparts are shown.
    if (tied === "off") this.#hold(0, -1);
    this.#moved(0, this.views[0].now);
    this.#align(0);
  }

  /** Go to the next or the previous difference; return a sentence if there is none. @param {number} by */
  walk(by) {
    const stops = this.differences.stops();
    if (!stops.length) return "There is no difference at this step.";
    this.place = this.place < 0 ? (by > 0 ? 0 : stops.length - 1) : (this.place + by + stops.length) % stops.length;
    const { side, node } = stops[Math.min(this.place, stops.length - 1)];
    const other = this.views[1 - side];
    this.views[side].selection.select(node, true);
    if (this.differences.partner(side, node) < 0) other.selection.select(-1);
    this.head.walked(this.place, stops);
  }

  /** Remove both views from the page. */
  destroy() {
    this.theme.end();
    this.head.end();
    for (const view of this.views) view.destroy();
    this.root.remove();
  }
}
