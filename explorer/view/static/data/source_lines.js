// Lines of the user's program, with the nodes and decisions that belong to each line.

/** @typedef {{row: number, listing: import("../types").ListingTable, number: number, text: string, nodes: number[], decisions: number[], hue: number}} Line
 *   nodes: the nodes that it recorded and that have a slot; hue: its colour, −1 for a line that recorded nothing */

/** Number of colours that lines cycle through; --ex-line-0 … in palette.py. */
export const HUES = 8;

/** Lines of one trace, indexed at the first access. */
export class SourceLines {
  /** @param {import("./trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.listings = trace.recording.listings;
    /** @type {Line[] | null} */ this.indexed = null;
  }

  /** Whether the source of the program or file is known. */
  get isKnown() {
    return this.listings.length > 0;
  }

  /** All lines, in the order of their listings. @returns {Line[]} */
  get lines() {
    this.indexed ??= this.#lines();
    return this.indexed;
  }

  /** @type {Int32Array} source → line */ #lineOf = new Int32Array(0);

  #lines() {
    const { recording, nodes, slotOf, decisions } = this.trace;
    /** @type {Line[]} */ const lines = [];
    this.#lineOf = new Int32Array(recording.sources.length).fill(-1);
    for (const listing of this.listings) {
      listing.numbers.forEach((number, index) => {
        const sources = listing.sources[index];
        for (const source of sources) this.#lineOf[source] = lines.length;
        const text = listing.lines[index] ?? recording.sources[sources[0]].text;
        lines.push({ row: lines.length, listing, number, text, nodes: [], decisions: [], hue: -1 });
      });
    }
    nodes.source.forEach((source, node) => {
      if (nodes.born[node] < 0 && slotOf[node] >= 0 && this.#lineOf[source] >= 0) lines[this.#lineOf[source]].nodes.push(node);
    });
    let used = 0;
    for (const line of lines) {
      if (!line.nodes.length) continue;
      line.hue = used++ % HUES;
      // The nodes that a line computes precede the weights created for it.
      line.nodes = [...line.nodes.filter((node) => nodes.kind[node] !== "leaf"), ...line.nodes.filter((node) => nodes.kind[node] === "leaf")];
    }
    decisions.forEach(({ subjects, produced }, index) => {
      const rows = new Set((subjects.length ? subjects : produced).map((node) => this.#lineOf[nodes.source[node]] ?? -1));
      for (const row of rows) if (row >= 0) lines[row].decisions.push(index);
    });
    return lines;
  }

  /** Return the line of a node, −1 if it is unknown. A node created by a pass has the line of the node that it replaced. @param {number} node */
  of(node) {
    if (node < 0 || !this.lines.length) return -1;
    const { nodes, slotOf, layout } = this.trace;
    const own = this.#lineOf[nodes.source[node]] ?? -1;
    if (own >= 0) return own;
    const first = layout.slots[slotOf[this.trace.origin(node)]]?.nodes[0] ?? node;
    return this.#lineOf[nodes.source[first]] ?? -1;
  }

  /** Return the slots of the nodes that a line recorded. @param {number} row @returns {Set<number>} */
  slots(row) {
    const { slotOf } = this.trace;
    return new Set((this.lines[row]?.nodes ?? []).map((node) => slotOf[this.trace.origin(node)]));
  }
}
