// Open boxes at a moment. Boxes with almost no content, or none any more, are drawn closed; Python computes when.

/** Open boxes of one trace. */
export class OpenBoxes {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor({ layout, replay }) {
    this.boxes = layout.boxes;
    /** @type {Map<number, [number, number][]>} box → spans of instants, first and last, in which it is drawn open */ this.spans = new Map();
    for (const [box, first, last] of replay.opens) this.spans.set(box, [...(this.spans.get(box) ?? []), [first, last]]);
    /** sorted instants at which the set of boxes drawn open changes */
    this.turns = Float64Array.from(new Set(replay.opens.flatMap(([, first, last]) => [first, last + 1]))).sort();
  }

  /** Whether the same boxes are drawn open at two instants, ignoring the reader's choices. @param {number} instant @param {number} other */
  areAlike(instant, other) {
    return this.#turnsUntil(instant) === this.#turnsUntil(other);
  }

  /** Count the changes up to an instant. */
  #turnsUntil(instant) {
    let [low, high] = [0, this.turns.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.turns[middle] <= instant) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {Set<number>} open @param {Set<number>} chosen boxes opened by the reader, which stay open @returns {Set<number>} */
  drawn({ instant }, open, chosen) {
    const isFull = (box) => this.spans.get(box)?.some(([first, last]) => first <= instant && instant <= last) ?? true;
    return new Set([...open].filter((box) => this.boxes[box].parent < 0 || chosen.has(box) || isFull(box)));
  }
}
