// Open boxes at a moment: boxes with almost no content yet, or no content any more, are drawn closed. Counterpart of open_boxes.py.

/** Decides for the boxes of one trace. */
export class OpenBoxes {
  /** @param {import("../data/recording.js").Trace} trace @param {import("../data/timeline.js").Timeline} timeline */
  constructor(trace, timeline) {
    this.trace = trace;
    this.timeline = timeline;
  }

  /**
   * The open boxes in which something stands; of a block, an operation that is no row of a batch's result. So it is with
   * the first of the equal boxes of a stack, and a stack is not drawn open where that is not. The box of a batch is drawn
   * open when all of it is there and no call is left that stands for what is inside.
   * @param {import("../data/timeline.js").Moment} moment @param {Set<number>} open @param {Set<number>} chosen those that a reader opened stay open
   * @returns {Set<number>}
   */
  settled(moment, open, chosen) {
    const { boxes } = this.trace.layout;
    const { kind, born } = this.trace.nodes;
    const members = new Set([...open].map((box) => this.#first(box)));
    const works = (node) => (kind[node] === "operation" || kind[node] === "call") && !this.trace.batched.has(born[node]);
    const full = (box) => this.#holds(box, moment, members.has(box) || boxes[box].kind === "block" ? works : () => true);
    const waits = ({ batches }, box) => batches.length > 0 && (batches.some((made) => made >= moment.position) || this.#holds(box, moment, (node, ghost) => !ghost && kind[node] === "call"));
    const isOpen = (box) => full(box) && (this.#first(box) < 0 || full(this.#first(box))) && !waits(boxes[box], box);
    return new Set([...open].filter((box) => boxes[box].parent < 0 || chosen.has(box) || isOpen(box)));
  }

  /** The first of many equal boxes that a box stands for; −1 for any other box. */
  #first(box) {
    const { kind, items } = this.trace.layout.boxes[box];
    return kind === "stack" || kind === "repeat" ? (items[0].box ?? -1) : -1;
  }

  /** Whether a node stands in a box of which something is true. @param {(node: number, ghost: boolean) => boolean} is */
  #holds(box, { position, stage }, is) {
    const { trace } = this;
    const { boxes } = trace.layout;
    const first = this.timeline.stages[stage]?.first ?? 0;
    const inside = [box];
    for (const each of inside) {
      for (const item of boxes[each].items) {
        if (item.slot === undefined) inside.push(item.box);
        else {
          const [node, ghost] = trace.standing(item.slot, position, first);
          if (node >= 0 && is(node, ghost)) return true;
        }
      }
    }
    return false;
  }
}
