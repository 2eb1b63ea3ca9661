// Substitutions: the node that represents each node at a position, updated incrementally.

/** Maximum number of rows that are applied one by one; with more, all nodes are computed again. */
const FEW = 64;

/** Replacements of one recording. */
export class Substitutions {
  /** @param {[number, number, number][]} rows decision, old node, new node; no earlier row replaces a new node @param {number} count number of nodes */
  constructor(rows, count) {
    this.rows = rows;
    this.final = Int32Array.from({ length: count }, (_, node) => node);
    this.entered = 0;
    /** linked lists: the node merged last into each node, and the node merged before each @type {Int32Array} */
    this.last = new Int32Array(count).fill(-1);
    this.before = new Int32Array(count).fill(-1);
    for (const [, old, by] of rows) [this.before[old], this.last[by]] = [this.last[by], old];
  }

  /** Return an array from nodes to the nodes that represent them after `position` decisions; the next call overwrites it. @param {number} position @returns {Int32Array} */
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

  /** Return a node and all nodes merged into it; none is merged after the node itself was replaced. @returns {number[]} */
  #merged(node) {
    const nodes = [node];
    for (const each of nodes) for (let other = this.last[each]; other >= 0; other = this.before[other]) nodes.push(other);
    return nodes;
  }

  /** Return the number of rows of decisions before a position. */
  #rowsBefore(position) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle][0] < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Return a map from the nodes whose representative a decision changes to their representatives before it. @param {number} decision @returns {Map<number, number>} */
  changed(decision) {
    const predecessors = new Map();
    for (let row = this.#rowsBefore(decision + 1) - 1; row >= this.#rowsBefore(decision); row--) {
      const [, old] = this.rows[row];
      // Go backwards, so that of two replacements by one decision the first one determines the previous node.
      for (const node of this.#merged(old)) predecessors.set(node, old);
    }
    return predecessors;
  }
}
