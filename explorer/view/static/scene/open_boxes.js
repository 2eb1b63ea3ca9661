// Open boxes at a moment: those with almost no content yet, or none any more, are drawn closed. Python says when.

/** Decides for the boxes of one trace. */
export class OpenBoxes {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor({ layout, replay }) {
    this.boxes = layout.boxes;
    /** @type {Map<number, [number, number][]>} box → first and last instants at which it is drawn open */ this.spans = new Map();
    for (const [box, first, last] of replay.opens) this.spans.set(box, [...(this.spans.get(box) ?? []), [first, last]]);
    /** instants from which on other boxes are drawn open than before, in order */
    this.turns = Float64Array.from(new Set(replay.opens.flatMap(([, first, last]) => [first, last + 1]))).sort();
  }

  /** Whether the same boxes are drawn open at two instants, as far as no reader opens or closes any. @param {number} instant @param {number} other */
  areAlike(instant, other) {
    return this.#turnsUntil(instant) === this.#turnsUntil(other);
  }

  /** How many turns there are up to an instant. */
  #turnsUntil(instant) {
    let [low, high] = [0, this.turns.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.turns[middle] <= instant) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {import("../data/timeline.js").Moment} moment @param {Set<number>} open @param {Set<number>} chosen those that a reader opened stay open @returns {Set<number>} */
  drawn({ instant }, open, chosen) {
    const isFull = (box) => this.spans.get(box)?.some(([first, last]) => first <= instant && instant <= last) ?? true;
    return new Set([...open].filter((box) => this.boxes[box].parent < 0 || chosen.has(box) || isFull(box)));
  }
}
