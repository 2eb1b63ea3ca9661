// Lineage of a node: everything it is computed from, or everything computed from it.

import { counted } from "../data/number_format.js";

/** @typedef {"inputs" | "outputs"} TraceDirection */

/** Relation of a traced node to the selection, for screen readers; on the canvas it is highlighted and everything else is dimmed. */
export const TRACED = { inputs: "leads to the selection", outputs: "is computed from the selection" };

/** Lineage of the nodes of one trace. */
export class Lineage {
  /** @param {import("../data/trace.js").Trace} trace @param {import("./placement.js").Paths} paths */
  constructor(trace, paths) {
    this.trace = trace;
    this.paths = paths;
    this.known = { key: "", /** @type {Set<number>} */ nodes: new Set(), sentence: "" };
    this.drawn = { nodes: this.known.nodes, placement: null, lit: undefined };
    /** total number of graph traversals, a measure of the work for tests */ this.walked = 0;
  }

  /** Return the nodes on one side of a node at a position, excluding the node itself. The time is linear in the size of the graph. @param {number} node @param {TraceDirection} direction @param {number} position */
  nodes(node, direction, position) {
    return this.#traced(node, direction, position).nodes;
  }

  /** Describe the number of operations, inputs and weights in the lineage. @param {number} node @param {TraceDirection} direction @param {number} position */
  sentence(node, direction, position) {
    return this.#traced(node, direction, position).sentence;
  }

  /** Compute the lineage again only if the node or the graph changed, since most steps change neither. */
  #traced(node, direction, position) {
    const key = `${node} ${direction} ${this.trace.changesUntil(position)}`;
    if (this.known.key !== key) {
      this.walked++;
      const nodes = this.#reached(node, direction, position);
      this.known = { key, nodes, sentence: this.#sentence(node, direction, nodes) };
    }
    return this.known;
  }

  #reached(node, direction, position) {
    const { trace } = this;
    const { operands } = trace.nodes;
    const final = trace.resolver(position);
    /** @type {(node: number) => Iterable<number>} */
    let next = (each) => operands[each].map((operand) => final[operand]);
    if (direction === "outputs") {
      /** @type {Map<number, number[]>} */ const readers = new Map();
      for (let each = 0; each < trace.count; each++) {
        if (!trace.exists(each, position)) continue;
        for (const operand of operands[each]) {
          const read = final[operand];
          if (readers.has(read)) readers.get(read).push(each);
          else readers.set(read, [each]);
        }
      }
      next = (each) => readers.get(each) ?? [];
    }
    const reached = new Set([node]);
    // The set grows during the iteration.
    for (const each of reached) for (const other of next(each)) reached.add(other);
    reached.delete(node);
    return reached;
  }

  #sentence(node, direction, nodes) {
    const { trace } = this;
    const { kind } = trace.nodes;
    const { leaves: { parameters }, shared_leaves: shared = {} } = trace.recording;
    let operations = 0;
    // A tensor with several leaves counts once.
    const [inputs, weights] = [new Set(), new Set()];
    for (const each of nodes) {
      if (kind[each] === "operation" || kind[each] === "call") operations++;
      else if (parameters[each] > 0) weights.add(shared[each] ?? each);
      else if (kind[each] === "leaf" || kind[each] === "input") inputs.add(shared[each] ?? each);
    }
    const label = trace.label(node);
    if (direction === "outputs") return operations ? `${counted(operations, "operation")} ${operations === 1 ? "is" : "are"} computed from ${label}` : `nothing is computed from ${label}`;
    const leaves = [inputs.size && counted(inputs.size, "input"), weights.size && counted(weights.size, "weight")].filter(Boolean).join(" and ");
    const before = operations ? `${counted(operations, "operation")} ${operations === 1 ? "leads" : "lead"} to ${label}` : `no operation leads to ${label}`;
    return leaves ? `${before}, from ${leaves}` : before;
  }

  /** Return the slots and edges of the traced lineage, empty if nothing is traced. @param {import("../controls/selection.js").Selection} selection @param {import("./scene.js").Scene} scene @param {import("./placement.js").Placement} placement */
  lit({ traceDirection: direction, standing: node }, scene, placement) {
    if (!direction || node < 0) return undefined;
    const { position } = scene.moment;
    const nodes = this.nodes(node, direction, position);
    if (this.drawn.nodes !== nodes || this.drawn.placement !== placement) this.drawn = { nodes, placement, lit: this.#lit(node, direction, nodes, scene, placement) };
    return this.drawn.lit;
  }

  #lit(node, direction, nodes, scene, placement) {
    const { trace } = this;
    const { position } = scene.moment;
    const slotOf = (each) => trace.slotOf[trace.origin(each)];
    /** @type {Map<number, string>} */ const slots = new Map();
    for (const each of nodes) if (slotOf(each) >= 0) slots.set(slotOf(each), direction);
    const own = slotOf(node);
    slots.delete(own);
    const final = trace.resolver(position);
    /** @type {Set<string>} */ const edges = new Set();
    for (const consumer of [own, ...slots.keys()]) {
      const mark = scene.slots.get(consumer);
      if (!mark) continue;
      for (const operand of trace.nodes.operands[mark.node]) {
        const producer = slotOf(final[operand]);
        if (producer < 0 || producer === consumer || !(slots.has(producer) || producer === own)) continue;
        // Operands of the selection do not belong to its outputs, nor readers to its inputs.
        if (consumer === own && direction === "outputs") continue;
        for (const segment of this.paths.segments(producer, consumer)) if (placement.composed.has(segment[0])) edges.add(segment.join(":"));
      }
    }
    return { slots, edges };
  }
}
