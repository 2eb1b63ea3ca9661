// The why panel: facts about the selected node or box, or about the current moment.

import { BoxPanel } from "./box_panel.js";
import { MomentPanel } from "./moment_panel.js";
import { NodePanel } from "./node_panel.js";
import { PanelParts } from "./panel_parts.js";
import { PairPanel } from "./pair_panel.js";
import { ValuePanel } from "./value_panel.js";
import { focused, hasFocus, html, put, refill } from "../dom.js";

/** Length from which a name is cut after a few lines. */
const LONG = 120;

/** Panel for the selection, or for the current moment if nothing is selected. */
export class Panel {
  /** @param {import("../data/trace.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline @param {import("../scene/scene.js").SceneBuilder} sceneBuilder @param {import("../data/totals.js").Totals} totals @param {import("./panel_parts.js").Actions} actions */
  constructor(trace, timeline, sceneBuilder, totals, actions) {
    this.parts = new PanelParts(trace, timeline, sceneBuilder, totals, actions);
    this.nodePanel = new NodePanel(this.parts);
    this.valuePanel = new ValuePanel(this.parts);
    this.boxPanel = new BoxPanel(this.parts);
    this.pairPanel = new PairPanel(this.parts);
    this.momentPanel = new MomentPanel(this.parts);
    this.scrolled = false;
    /** the subject of the panel */ this.subject = "";
    this.root = html("aside", { class: "ex-why", tabindex: -1, "aria-label": "why", scroll: () => (this.scrolled = true) });
    this.heldRow = new HeldRow(this.root);
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {number} selected a node, −1 for none @param {number} box −1 for none @param {import("../controls/selection.js").Selection} selection @param {import("../exercises/prediction.js").Prediction} prediction fills the panel while it is on, so that the panel reveals no answer */
  show(moment, selected, box, { other, otherBox, carried }, prediction) {
    Object.assign(this.parts, { moment, selected });
    this.parts.kept.begin();
    const isSelected = selected >= 0 || box >= 0;
    const ofSelection = () => (other >= 0 || otherBox >= 0 ? this.pairPanel.content({ node: selected, box }, { node: other, box: otherBox }) : carried.length ? this.valuePanel.content(selected, carried) : selected >= 0 ? this.nodePanel.content(selected) : this.boxPanel.content(box));
    const content = prediction.isOn ? prediction.exercise.content() : isSelected ? [this.#back(), ...ofSelection()] : this.momentPanel.content();
    const subject = `${moment.step} ${moment.stage} ${selected} ${box} ${other} ${otherBox} ${carried} ${prediction.isOn}`;
    const isSame = subject === this.subject;
    this.subject = subject;
    const isHeld = this.heldRow.around(isSame, () => this.#fill(content));
    this.parts.kernelCode.follow();
    if (isHeld || isSame) return;
    if (this.scrolled) this.root.scrollTop = 0;
    this.scrolled = false;
  }

  /** Return a button that clears the selection to show the decision or kernel of the moment, or the whole stage. */
  #back() {
    const { moment, timeline, actions, kept } = this.parts;
    const whole = moment.decision >= 0 ? "this decision" : moment.kernel >= 0 ? "this kernel" : timeline.stages[moment.stage].name.replaceAll("_", " ");
    return kept.part(`back|${whole}`, () => html("button", { type: "button", class: "ex-link ex-back", title: "leave the selection (Esc)", click: () => actions.select(-1) }, `← ${whole}`));
  }

  /** Shorten long names visually; the tooltip and copied text contain the whole name. */
  #bound() {
    for (const named of this.root.querySelectorAll("h4, b, code, .ex-link")) {
      if (named.textContent.length <= LONG || named.closest("pre")) continue;
      named.classList.add("ex-long");
      put(named, "title", named.textContent);
    }
  }

  #fill(content) {
    const typing = hasFocus(this.parts.decisions.root) && focused(this.parts.decisions.root);
    refill(this.root, content.filter(Boolean));
    this.parts.kernelCode.restore();
    this.#bound();
    // Moving a child makes a field inside lose the focus while the reader types.
    if (typing instanceof HTMLElement && typing.isConnected) typing.focus({ preventScroll: true });
  }
}

/** Row of a pressed decision or line of code, kept at its screen position while the panel around it is filled again. */
class HeldRow {
  /** @param {HTMLElement} root the panel, which scrolls */
  constructor(root) {
    this.root = root;
    /** @type {{selector: string, top: number, hasFocus: boolean} | undefined} */ this.held = undefined;
    /** whether the row is being pressed now */ this.isPressed = false;
    root.addEventListener("click", (event) => this.#press(event.target), { capture: true });
    root.addEventListener("click", () => (this.isPressed = false));
  }

  #press(target) {
    const row = target instanceof Element && target.closest(".ex-decisions [data-decision], .ex-code-line[data-node]");
    if (!(row instanceof HTMLElement)) return;
    this.isPressed = true;
    this.#hold(row);
  }

  #hold(row) {
    const { decision, node } = row.dataset;
    // Several lines may compute one node, and the pressed one is kept.
    const selector = decision === undefined ? `.ex-code-line[data-line="${row.dataset.line}"][data-node="${node}"]` : `.ex-decisions [data-decision="${decision}"]`;
    this.held = { selector, top: this.#top(row), hasFocus: hasFocus(row) };
  }

  #row() {
    /** @type {HTMLElement | null} */ const row = this.root.querySelector(this.held.selector);
    return row;
  }

  /** Return the px from the top of the window, because the parts above the panel may change height. */
  #top(row) {
    return row.getBoundingClientRect().top;
  }

  /** Fill the panel with new or equal content. Return whether a row kept its position. @param {boolean} isSame @param {() => void} fill */
  around(isSame, fill) {
    if (!this.isPressed) {
      const row = isSame && this.held && this.#row();
      if (row) this.#hold(row);
      else this.held = undefined;
    }
    fill();
    const row = this.held && this.#row();
    if (row) this.#settle(row);
    return Boolean(row);
  }

  /** Scroll the row to its position, with the first lines of the panel visible if possible. If the panel is too short, add space above or below the list. */
  #settle(row) {
    const { root } = this;
    const { top, hasFocus } = this.held;
    const away = this.#top(row) + root.scrollTop - top;
    if (away < 0) this.#leaveRoom(row, -away);
    const missing = away - (root.scrollHeight - root.clientHeight);
    if (missing > 0) root.append(html("div", { class: "ex-room", style: `height:${missing}px` }));
    root.scrollTop = Math.max(0, away);
    if (hasFocus) row.focus({ preventScroll: true });
  }

  /** Add space above a list, less the margins that no longer collapse. */
  #leaveRoom(row, px) {
    const before = this.#top(row);
    const room = html("div", { class: "ex-room" });
    this.#listOf(row).before(room);
    put(room, "style", `height:${px - (this.#top(row) - before)}px`);
  }

  /** Return the first element of the row's list, its heading. */
  #listOf(row) {
    let part = row;
    while (part.parentElement !== this.root) part = part.parentElement;
    return part.previousElementSibling?.tagName === "H5" ? part.previousElementSibling : part;
  }
}
