// The why panel: facts about the selected node or box, or about the current moment.

import { BoxPanel } from "./box_panel.js";
import { HeldRow } from "./held_row.js";
import { MomentPanel } from "./moment_panel.js";
import { NodePanel } from "./node_panel.js";
import { PanelParts } from "./panel_parts.js";
import { PairPanel } from "./pair_panel.js";
import { html, put, refill } from "../dom.js";

/** Characters from which on a name is cut after a few lines. */
const LONG = 120;

/** Fills the panel for the selection, or for the current moment if nothing is selected. */
export class Panel {
  /** @param {import("../data/recording.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("../scene/scene.js").SceneBuilder} sceneBuilder @param {import("../data/totals.js").Totals} totals @param {import("./panel_parts.js").Actions} actions */
  constructor(trace, timeline, sceneBuilder, totals, actions) {
    this.parts = new PanelParts(trace, timeline, sceneBuilder, totals, actions);
    this.nodePanel = new NodePanel(this.parts);
    this.boxPanel = new BoxPanel(this.parts);
    this.pairPanel = new PairPanel(this.parts);
    this.momentPanel = new MomentPanel(this.parts);
    this.scrolled = false;
    /** the subject of the panel */ this.subject = "";
    this.root = html("aside", { class: "ex-why", tabindex: -1, "aria-label": "why", scroll: () => (this.scrolled = true) });
    this.heldRow = new HeldRow(this.root);
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {number} selected a node, −1 for none @param {number} box the same @param {{other: number, otherBox: number}} second the second of two nodes, or a box, −1 for none @param {import("../exercises/prediction.js").Prediction} prediction takes the panel while it is on: nothing there may tell the order */
  show(moment, selected, box, { other, otherBox }, prediction) {
    Object.assign(this.parts, { moment, selected });
    this.parts.kept.begin();
    const isSelected = selected >= 0 || box >= 0;
    const ofSelection = () => (other >= 0 || otherBox >= 0 ? this.pairPanel.content({ node: selected, box }, { node: other, box: otherBox }) : selected >= 0 ? this.nodePanel.content(selected) : this.boxPanel.content(box));
    const content = prediction.isOn ? prediction.content() : isSelected ? [this.#back(), ...ofSelection()] : this.momentPanel.content();
    const subject = `${moment.step} ${moment.stage} ${selected} ${box} ${other} ${otherBox} ${prediction.isOn}`;
    const isSame = subject === this.subject;
    this.subject = subject;
    if (this.heldRow.around(isSame, () => this.#fill(content)) || isSame) return;
    if (this.scrolled) this.root.scrollTop = 0;
    this.scrolled = false;
  }

  /** A button that leaves the selection for the decision or kernel of the moment, or for the stage with all of its decisions. */
  #back() {
    const { moment, timeline, actions, kept } = this.parts;
    const whole = moment.decision >= 0 ? "this decision" : moment.kernel >= 0 ? "this kernel" : timeline.stages[moment.stage].name.replaceAll("_", " ");
    return kept.part(`back|${whole}`, () => html("button", { type: "button", class: "ex-link ex-back", title: "leave the selection (Esc)", click: () => actions.select(-1) }, `← ${whole}`));
  }

  /** Cut names of many lines for the eye: a tooltip has all of them, and so has a copy. */
  #bound() {
    for (const named of this.root.querySelectorAll("h4, b, code, .ex-link")) {
      if (named.textContent.length <= LONG || named.closest("pre")) continue;
      named.classList.add("ex-long");
      put(named, "title", named.textContent);
    }
  }

  #fill(content) {
    const typing = this.parts.decisions.root.contains(document.activeElement) && document.activeElement;
    refill(this.root, content.filter(Boolean));
    this.#bound();
    // A child that moves loses the focus of the field in which a reader types.
    if (typing instanceof HTMLElement && typing.isConnected) typing.focus({ preventScroll: true });
  }
}
