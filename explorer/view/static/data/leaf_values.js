// Values of leaves that a reader selects before any run: asked for once each, where somebody answers.

/** @typedef {{node: number, summary: any, problem: string}} Answer summary: a row of record/rows.py's Summary, null where the leaf has no value */

/** The values that one view has asked for. */
export class LeafValues {
  /** @param {import("./trace.js").Trace} trace @param {((node: number) => void) | undefined} ask @param {() => void} changed */
  constructor(trace, ask, changed) {
    this.trace = trace;
    this.ask = ask;
    this.changed = changed;
    /** @type {Map<number, string>} */ this.states = new Map();
  }

  /** The sentence about a leaf without a value, "" where nothing can be known; asks for it at first. @param {number} node */
  state(node) {
    const { nodes } = this.trace;
    if (!this.ask || nodes.kind[node] !== "leaf") return "";
    if (!this.states.has(node)) {
      this.states.set(node, "reading …");
      this.ask(node);
    }
    return this.states.get(node);
  }

  /** @param {Answer} answer */
  take({ node, summary, problem }) {
    this.states.set(node, problem);
    if (summary) this.trace.values[node] = summary;
    this.changed();
  }
}
