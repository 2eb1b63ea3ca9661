// Values of leaves that a reader selects before any run, each requested once if a kernel can answer.

/** @typedef {{node: number, summary: any, problem: string}} Answer summary: a row of record/rows.py's Summary, null where the leaf has no value */

/** Sentence about a weight of a file in a page that was written without reading it. */
const UNREAD = "Not read from the file: a page has the values of the smallest weights. The command explorer show FILE --weights writes a page with all of them.";

/** Values that one view has requested. */
export class LeafValues {
  /** @param {import("./trace.js").Trace} trace @param {((node: number) => void) | undefined} ask @param {() => void} changed */
  constructor(trace, ask, changed) {
    this.trace = trace;
    this.ask = ask;
    this.changed = changed;
    /** @type {Map<number, string>} */ this.states = new Map();
  }

  /** Return the sentence about a leaf without a value, "" if none applies; the first call requests the value. @param {number} node */
  state(node) {
    const { nodes, recording } = this.trace;
    if (nodes.kind[node] !== "leaf") return "";
    if (!this.ask) return recording.operators?.length && recording.leaves.parameters[node] ? UNREAD : "";
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
