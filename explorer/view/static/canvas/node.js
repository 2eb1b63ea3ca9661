// Drawings of slots and boxes, with their states as shapes, labels and colours.

import { put, say, svg } from "../dom.js";
import { grouped } from "../data/number_format.js";
import { besides } from "../scene/direction.js";
import { LIT, SPOKEN } from "../scene/gradient_links.js";
import { tintOf } from "../scene/heat.js";
import { KernelTime } from "./kernel_time.js";

const STATES = { plain: "", new: "new", fresh: "new in this stage", gone: "removed now", was: "removed in this stage" };
/** Offset in px of the output mark below the border, so that it does not cover the type. */
const DROP = 4;

/** px of a name's font at other scales, which fits into its item, and the maximum at small scales; mean width of a letter in em. */
const [NAME, FAR, LETTER] = [12, 17, 0.72];

/** Drawing of one slot; only changed parts are updated. */
export class SlotView {
  /** @param {import("../data/trace.js").Trace} trace @param {number} slot */
  constructor(trace, slot) {
    this.trace = trace;
    this.slot = trace.layout.slots[slot];
    this.shape = svg("rect", { class: "ex-shape" });
    this.name = svg("text", { class: "ex-name" });
    this.second = svg("text", { class: "ex-second" });
    this.extras = new Map();
    this.root = svg("g", { class: "ex-node", "data-key": `n${slot}`, tabindex: -1, role: "button" }, this.shape, this.name, this.second);
    this.key = "";
    this.node = -1;
    this.time = new KernelTime(false);
    /** @type {import("../scene/placement.js").Placement | null} */
    this.placement = null;
  }

  /**
   * Move the slot. Coordinates are absolute, because a transform for each node would make the browser keep
   * the state of a paint layer for each.
   * @param {import("../scene/placement.js").Rect} rect
   */
  place(rect) {
    if (this.at && rect.every((length, index) => this.at[index] === length)) return;
    this.at = rect;
    this.key = "";
    this.node = -1;
  }

  /** @param {import("../scene/slot_states.js").SlotState} mark @param {import("../scene/placement.js").Placement} placement @param {boolean} selected @param {boolean} matches @param {import("../scene/heat.js").Share} [share] its heat @param {string} [lit] its relation to the selection: see gradient_links.js @param {import("../compare/differences.js").Difference} [differs] its difference from the other graph */
  show(mark, placement, selected, matches, share, lit, differs) {
    // A time avoids its neighbours, which may have moved.
    if (mark.time && this.placement !== placement) this.key = "";
    this.placement = placement;
    const key = `${mark.key}|${mark.apart}|${selected}|${matches}|${share}|${lit}|${differs?.kind}`;
    if (key === this.key) return;
    this.key = key;
    const place = this.trace.placeOf[mark.node];
    const [wide, high] = this.slot.sizes[place];
    const [x, y] = [this.at[0] + ((this.at[2] - wide) >> 1), this.at[1] + ((this.at[3] - high) >> 1)];
    const isLeaf = mark.flags.includes("leaf");
    if (this.node !== mark.node) this.#outline(x, y, wide, high, isLeaf);
    this.node = mark.node;
    const [name, type, ghost, second] = this.trace.layout.texts[this.slot.text[place]];
    const isGhost = mark.state === "gone" || mark.state === "was";
    say(this.name, name);
    put(this.name, "style", farStyle(name, wide));
    say(this.second, isGhost && ghost ? ghost : mark.second || second || type);
    const classes = ["ex-node", `ex-${mark.state}`, ...mark.flags.map((flag) => `ex-${flag}`)];
    if (mark.member) classes.push("ex-member");
    if (selected) classes.push("ex-selected");
    if (matches) classes.push("ex-match");
    if (share !== undefined && !isGhost) classes.push("ex-hot");
    if (lit) classes.push(`ex-lit-${lit}`);
    if (differs) classes.push(`ex-differs-${differs.kind}`);
    put(this.root, "class", classes.join(" "));
    put(this.root, "aria-label", this.#spoken(mark, second || type, lit, differs));
    put(this.root, "aria-pressed", String(selected));
    put(this.root, "style", heatStyle(share));
    const family = isLeaf || isGhost ? "" : this.trace.familyOf(mark.node);
    const bar = this.#extra("family", family !== "", () => svg("path"));
    if (bar) drawFamily(bar, family, x, y, high);
    const tip = this.#extra("tip", mark.tip !== "", () => svg("title"));
    if (tip) say(tip, mark.tip);
    this.#tag(mark.tag || LIT[lit] || "", x, y);
    this.#number(mark.number, x - SPACING.number, besides(this.trace.layout, y, high));
    if (this.#extra("time", mark.time !== "", () => this.time.root)) this.time.show(mark.time, [x, y, x + wide, y + high], placement);
    this.#inner(mark, x, y, wide, high);
    this.#badge(mark.copies, x + wide, y);
    const isOutput = mark.flags.includes("output");
    this.#difference(differs?.kind === "regrouped" && mark.member ? undefined : differs, x, y + high + below(isOutput));
    this.#output(isOutput, x + wide, y + high);
  }

  #outline(x, y, wide, high, isLeaf) {
    outline(this.shape, x, y, wide, high);
    put(this.shape, "rx", isLeaf ? high / 2 : 8);
    for (const [text, down] of [[this.name, high / 2 - 3], [this.second, high / 2 + 11]]) {
      put(text, "x", x + wide / 2);
      put(text, "y", y + down);
    }
  }

  #spoken(mark, second, lit, differs) {
    const { trace } = this;
    const parts = [trace.namedLabel(mark.node), second, STATES[mark.state], mark.time && `${mark.second}, ${mark.time}`, mark.tag === "new" ? mark.second : mark.tag, SPOKEN[lit], differs?.meaning];
    if (mark.flags.includes("output")) parts.push("output");
    if (mark.apart.length) parts.push(`not fused with ${[...new Set(mark.apart.map(trace.namedLabel))].join(", ")}`);
    if (mark.number) parts.push(`number ${mark.number}`);
    if (mark.copies > 1) parts.push(`represents ${mark.copies} equal nodes`);
    return parts.filter(Boolean).join(", ");
  }

  #extra(name, wanted, make) {
    const known = this.extras.get(name);
    if (!wanted) {
      known?.remove();
      this.extras.delete(name);
      return null;
    }
    if (known) return known;
    const part = make();
    this.extras.set(name, part);
    this.root.append(part);
    return part;
  }

  #number(number, x, y) {
    const element = this.#extra("number", number > 0, () => svg("text", { class: "ex-number" }));
    if (!element) return;
    say(element, grouped(number));
    put(element, "x", x);
    put(element, "y", y);
  }

  /** Draw the state as a word at the upper left corner. */
  #tag(text, x, y) {
    const tag = this.#extra("tag", text !== "", () => pill("ex-tag", 14));
    if (tag) fillPill(tag, text, x - 6, y - 3);
  }

  /** Draw the mark of a call (it can be entered), the time bar and the sign of a live value. */
  #inner(mark, x, y, wide, high) {
    const call = this.#extra("call", mark.flags.includes("call"), () => svg("path", { class: "ex-enter" }));
    if (call) put(call, "d", `M${x + wide - 14} ${y + 9}l4 4l-4 4`);
    const heat = this.#extra("heat", mark.heat > 0, () => svg("rect", { class: "ex-heat", height: 4, rx: 2 }));
    if (heat) {
      put(heat, "x", x + 10);
      put(heat, "y", y + high - 2);
      put(heat, "width", Math.max(3, Math.round((wide - 20) * mark.heat)));
    }
  }

  /** Draw the number of equal nodes that it represents, "×3", at the upper right corner. */
  #badge(copies, x, y) {
    const badge = this.#extra("badge", copies > 1, () => pill("ex-badge", 17));
    if (badge) fillPill(badge, `×${grouped(copies)}`, x - 14, y - 2);
  }

  /** Draw its difference from the other graph at the lower left corner; a fused kernel shows it for its members. */
  #difference(difference, x, y) {
    const pillar = this.#extra("difference", difference !== undefined, () => pill("ex-differs", 14));
    if (pillar) fillPill(pillar, `${difference.sign} ${difference.word}`, x - 6, y);
  }

  /** Draw the mark of an output at the lower right corner, below the type. */
  #output(wanted, right, bottom) {
    const mark = this.#extra("output", wanted, () => pill("ex-asked", 14));
    if (mark) fillPill(mark, "output", right - 41, bottom + DROP);
  }
}

/** Return the style of a name with the font size in px at small scales, which is as large as the name's item allows. @param {string} name @param {number} wide px of the item */
function farStyle(name, wide) {
  const size = Math.max(NAME, Math.min(FAR, (wide - 8) / (LETTER * name.length)));
  return `--ex-far-name:${size.toFixed(1)}px`;
}

/** Return the offset in px of a difference mark below the lower border, which is larger if there is an output mark. */
function below(isOutput) {
  return isOutput ? 16 + DROP : 5;
}

function outline(shape, x, y, wide, high) {
  put(shape, "x", x);
  put(shape, "y", y);
  put(shape, "width", wide);
  put(shape, "height", high);
}

/** Draw the bar of a family of operations at the left side of a node or box. */
function drawFamily(bar, family, x, y, high) {
  put(bar, "class", `ex-family ex-family-${family}`);
  put(bar, "d", `M${x + 4} ${y + 10}v${high - 20}`);
}

function pill(name, high) {
  return svg("g", { class: name }, svg("rect", { height: high, rx: high / 2 }), svg("text"));
}

function fillPill(element, text, x, y) {
  const wide = Math.round(11 + 6.4 * text.length);
  const [shape, label] = element.children;
  put(shape, "x", x);
  put(shape, "y", y - shape.getAttribute("height") / 2);
  put(shape, "width", wide);
  say(label, text);
  put(label, "x", x + wide / 2);
  put(label, "y", y + 3.5);
}

const VERDICTS = [["applied", "✓"], ["declined", "✗"]];

/** Drawing of one box: closed, as a stack of nodes; open, as a frame with a title. */
export class BoxView {
  /** @param {import("../data/trace.js").Trace} trace @param {number} index @param {boolean} open */
  constructor(trace, index, open) {
    this.open = open;
    this.box = trace.layout.boxes[index];
    this.shape = svg("rect", { class: "ex-shape", rx: open ? 12 : 10 });
    this.under = svg("rect", { class: "ex-under", rx: 10 });
    this.name = svg("text", { class: open ? "ex-title" : "ex-name" });
    this.details = open ? [] : this.box.text.slice(1).map(() => svg("text", { class: "ex-second" }));
    this.sign = svg("path", { class: "ex-sign" });
    this.news = pill("ex-tag", 14);
    this.decided = pill("ex-decided", 14);
    this.output = pill("ex-asked", 14);
    this.differs = pill("ex-differs", 14);
    // A single operator of a file is not drawn as a stack.
    this.family = svg("path");
    const family = this.box.family ? [this.family] : [];
    const under = trace.isOperator(index) ? [] : [this.under];
    // Edges enter an open box across its header, so its title is drawn over them.
    this.label = svg("g", { class: "ex-box-label", "aria-hidden": "true" }, ...(open ? [this.name] : []));
    const parts = open ? [this.shape, this.sign] : [...under, this.shape, ...family, this.name, ...this.details, this.sign, this.news, this.decided, this.output, this.differs];
    this.root = svg("g", { class: open ? "ex-box ex-open" : "ex-box ex-closed", "data-key": `b${index}`, tabindex: -1, role: "button" }, ...parts);
    put(this.root, "aria-expanded", String(open));
    this.key = "";
  }

  /** @param {import("../scene/placement.js").Rect} rect */
  place(rect) {
    if (this.rect === rect) return;
    this.rect = rect;
    const [x, y, wide, high] = rect;
    this.at = [x, y];
    this.key = "";
    outline(this.shape, x, y, wide, high);
    outline(this.under, x + 5, y + 5, wide, high);
    if (this.box.family) drawFamily(this.family, this.box.family, x, y, high);
    const [name, ...details] = this.box.text;
    // An open box has room for the gain of its batches.
    say(this.name, this.open && this.box.batches.length ? `${name} · ${details.at(-1)}` : name);
    if (!this.open) put(this.name, "style", farStyle(name, wide));
    put(this.name, "x", this.open ? x + 28 : x + wide / 2);
    put(this.name, "y", this.open ? y + 18 : y + 21);
    for (const [line, text] of this.details.entries()) {
      say(text, details[line]);
      put(text, "x", x + wide / 2);
      put(text, "y", y + 36 + 14 * line);
    }
    fillPill(this.output, "output", x + wide - 41, y + high + DROP);
    put(this.sign, "d", this.open ? `M${x + 12} ${y + 14}h8` : `M${x + wide - 17} ${y + 11}h8m-4 -4v8`);
  }

  /** @param {import("../scene/box_marks.js").BoxMark | undefined} mark @param {boolean} selected @param {string} matches the matches of a search inside @param {import("../scene/heat.js").Share} [share] its heat @param {string} [lit] the relation of its hidden nodes to the selection @param {string} [differs] the differences inside */
  show(mark, selected, matches, share, lit, differs = "") {
    const key = `${mark?.key}|${selected}|${matches}|${share}|${lit}|${differs}`;
    if (key === this.key) return;
    this.key = key;
    const states = { "ex-none": mark?.empty, "ex-member": mark?.member, "ex-waiting": mark?.waiting, "ex-changed": mark?.changed, "ex-selected": selected, "ex-match": matches, "ex-hot": share !== undefined };
    this.label.classList.toggle("ex-none", Boolean(mark?.empty));
    put(this.root, "class", ["ex-box", this.open ? "ex-open" : "ex-closed", ...(lit ? [`ex-lit-${lit}`] : []), ...Object.keys(states).filter((name) => states[name])].join(" "));
    put(this.root, "style", heatStyle(share));
    const last = this.details.at(-1);
    for (const [line, text] of this.details.entries()) say(text, mark?.left ? (line ? "" : mark.left) : this.box.text[line + 1]);
    const numbers = [mark?.second, mark?.kernels].filter(Boolean);
    // The box is as wide as its own texts.
    const both = numbers.join(" · ");
    if (last && both) say(last, this.box.text.some((text) => text.length >= both.length) ? both : numbers[0]);
    const news = matches || (mark?.active ? "at work inside" : mark?.changed ? `${grouped(mark.changed)} changed inside` : lit ? LIT[lit] : "");
    const decided = !news && !mark?.empty ? mark?.decided : undefined;
    put(this.root, "aria-label", [`${this.box.kind} ${this.box.text[0]}`, ...(mark?.left ? [mark.left] : this.box.text.slice(1)), ...numbers, mark?.output && "output", differs && `${differs} inside`, news, decided?.applied && `${grouped(decided.applied)} applied inside`, decided?.declined && `${grouped(decided.declined)} declined inside`].filter(Boolean).join(", "));
    this.news.classList.toggle("ex-none", news === "");
    this.output.classList.toggle("ex-none", !mark?.output);
    this.differs.classList.toggle("ex-none", differs === "");
    if (differs) fillPill(this.differs, differs, this.at[0] - 6, this.at[1] + Number(this.shape.getAttribute("height")) + below(mark?.output));
    if (news) fillPill(this.news, news, this.at[0] - 6, this.at[1] - 3);
    this.decided.classList.toggle("ex-none", !decided);
    if (decided) this.#decide(decided);
  }

  /** Draw the numbers of a stage's decisions inside, as the stage's chip shows them. @param {import("../scene/box_marks.js").Decided} decided */
  #decide(decided) {
    const counts = VERDICTS.filter(([verdict]) => decided[verdict]).map(([verdict, sign]) => [verdict, `${grouped(decided[verdict])}${sign}`]);
    fillPill(this.decided, counts.map(([, text]) => text).join(" "), this.at[0] - 6, this.at[1] - 3);
    this.decided.lastChild.replaceChildren(...counts.map(([verdict, text], index) => svg("tspan", { class: `ex-mark-${verdict}` }, index ? ` ${text}` : text)));
  }
}

/** Return the CSS variables of a heat; a negative share has the cold colour. @param {import("../scene/heat.js").Share | undefined} share */
function heatStyle(share) {
  if (share === undefined) return false;
  const [colour, part] = tintOf(share);
  return `--ex-share:${Math.round(100 * part)}%${colour === "--ex-hot" ? "" : `;--ex-hot:var(${colour})`}`;
}
