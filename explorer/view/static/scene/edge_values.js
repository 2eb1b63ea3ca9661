// Values that edges carry: the values of a drawn edge, and all edges of a value.

/**
 * @typedef {{slots: Map<number, string>, edges: Set<string>}} Carried the slots of a value's producer and readers, and the keys of its drawn edges
 */

/** Relations of the ends of the selected value's edges, for screen readers; on the canvas they are highlighted. */
export const ENDS = { writes: "computes the selected value", reads: "reads the selected value" };

/** Values on the edges of one trace. */
export class EdgeValues {
  /** @param {import("../data/trace.js").Trace} trace @param {import("./scene.js").SceneBuilder} sceneBuilder */
  constructor(trace, sceneBuilder) {
    this.trace = trace;
    this.sceneBuilder = sceneBuilder;
    this.drawn = { key: "", placement: null, /** @type {Carried | undefined} */ carried: undefined };
  }

  /** Return the values that a drawn edge carries; several values may share a port of a box. Values that a pass has removed are returned only for an edge without other values. @param {string} key @param {import("./scene.js").Scene} scene @returns {number[]} */
  values(key, scene) {
    const { trace, sceneBuilder } = this;
    const final = trace.resolver(scene.moment.position);
    const [box, from, to] = key.split(":").map(Number);
    const [start, end] = [from, to].map((item) => trace.layout.boxes[box].items[item]?.slot);
    const [standing, removed] = [new Set(), new Set()];
    for (const consumer of end === undefined ? scene.slots.keys() : [end]) {
      const mark = scene.slots.get(consumer);
      for (const operand of mark ? trace.nodes.operands[mark.node] : []) {
        for (const value of new Set([final[operand], operand])) {
          const producer = trace.slotOf[trace.origin(value)];
          if (producer < 0 || producer === consumer || (start !== undefined && start !== producer)) continue;
          if (!sceneBuilder.edgeStates.segments(producer, consumer).some((piece) => piece.key === key)) continue;
          (isGhost(mark) || value !== final[operand] ? removed : standing).add(value);
        }
      }
    }
    return [...(standing.size ? standing : removed)];
  }

  /** Return the edges of a value and the slots at their ends, cached. @param {number} value @param {import("./scene.js").Scene} scene @param {import("./placement.js").Placement} placement @returns {Carried} */
  lit(value, scene, placement) {
    const key = `${value} ${this.trace.changesUntil(scene.moment.position)}`;
    if (this.drawn.key !== key || this.drawn.placement !== placement) this.drawn = { key, placement, carried: this.#lit(value, scene, placement) };
    return this.drawn.carried;
  }

  #lit(value, scene, placement) {
    const { trace, sceneBuilder } = this;
    const final = trace.resolver(scene.moment.position);
    const producer = trace.slotOf[trace.origin(value)];
    /** @type {Carried} */ const carried = { slots: new Map(), edges: new Set() };
    if (producer < 0) return carried;
    for (const [consumer, mark] of scene.slots) {
      if (consumer === producer || !trace.nodes.operands[mark.node].some((operand) => final[operand] === value || operand === value)) continue;
      if (final[value] !== value && !isGhost(mark)) continue;
      carried.slots.set(consumer, "reads");
      for (const { box, key } of sceneBuilder.edgeStates.segments(producer, consumer)) if (placement.composed.has(box)) carried.edges.add(key);
    }
    carried.slots.set(producer, "writes");
    return carried;
  }
}

const isGhost = ({ state }) => state === "gone" || state === "was";
