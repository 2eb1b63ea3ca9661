// Substitutions: the node that stands for each node at a position, kept by difference from one position to the next.

/** Rows that are entered one by one; of more, all nodes are looked up anew. */
const FEW = 64;

/** The replacements of one recording. */
export class Substitutions {
  /** @param {[number, number, number][]} rows decision, old node, new node; no earlier row replaces a new node @param {number} count of nodes */
  constructor(rows, count) {
    this.rows = rows;
    this.final = Int32Array.from({ length: count }, (_, node) => node);
    this.entered = 0;
    /** the node merged last into each node, and the one merged before each @type {Int32Array} */
    this.last = new Int32Array(count).fill(-1);
    this.before = new Int32Array(count).fill(-1);
    for (const [, old, by] of rows) [this.before[old], this.last[by]] = [this.last[by], old];
  }

  /** Node → the node that stands for it after `position` decisions; the next call changes it. @param {number} position @returns {Int32Array} */
  at(position) {
    const wanted = this.#rowsBefore(position);
    if (Math.abs(wanted - this.entered) > FEW) this.#recompute(wanted);
    for (; this.entered < wanted; this.entered++) this.#put(this.rows[this.entered][1], this.rows[this.entered][2]);
    for (; this.entered > wanted; this.entered--) this.#put(this.rows[this.entered - 1][1], this.rows[this.entered - 1][1]);
    return this.final;
  }

  #recompute(wanted) {
    const { rows, final } = this;
    for (const [, old] of rows) final[old] = old;
    for (let row = wanted - 1; row >= 0; row--) final[rows[row][1]] = final[rows[row][2]];
    this.entered = wanted;
  }

  #put(old, by) {
    for (const node of this.#merged(old)) this.final[node] = by;
  }

  /** A node and all that were merged into it: none of them after it was replaced itself. @returns {number[]} */
  #merged(node) {
    const nodes = [node];
    for (const each of nodes) for (let other = this.last[each]; other >= 0; other = this.before[other]) nodes.push(other);
    return nodes;
  }

  /** How many rows belong to decisions below a position. */
  #rowsBefore(position) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle][0] < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Node → the node that stood for it before a decision, for those for which another stands after it. @param {number} decision @returns {Map<number, number>} */
  changed(decision) {
    const predecessors = new Map();
    for (let row = this.#rowsBefore(decision + 1) - 1; row >= this.#rowsBefore(decision); row--) {
      const [, old] = this.rows[row];
      // From the last row back, so that of two replacements by one decision the first names the node that stood before.
      for (const node of this.#merged(old)) predecessors.set(node, old);
    }
    return predecessors;
  }
}
