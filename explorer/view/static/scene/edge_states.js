// Edge segments at a moment: the number of edges in each state that share a segment, and the state that is drawn.

/**
 * @typedef {{state: string, counts: number[], apart?: [number, number]}} EdgeState counts: rank of a state → number of edges through the segment; apart: the slots of the first edge through it that was declined
 * @typedef {{box: number, key: string}} Piece a segment of one edge
 * @typedef {{before: Piece[], after: Piece[]}} Move the segments of an edge before and after a decision
 */

const STATES = ["was", "gone", "plain", "new", "moved", "declined"];
const RANK = { was: 0, gone: 1, plain: 2, new: 3, moved: 4, declined: 5 };

/** Segments of one placement, updated incrementally. */
export class EdgeStates {
  /** @param {import("../data/trace.js").Trace} trace @param {import("./placement.js").Paths} paths @param {import("./placement.js").Placement} placement @param {Map<number, Piece[]>} cut cache of the segments of edges, shared by all placements */
  constructor(trace, paths, placement, cut) {
    this.trace = trace;
    this.paths = paths;
    this.placement = placement;
    this.cut = cut;
    /** @type {Map<string, EdgeState>} */ this.edges = new Map();
    /** @type {{key: string, rank: number}[][]} slot → the segments of the edges to it */ this.drawn = new Array(trace.layout.slots.length);
    /** @type {Map<number, Move[]>} */ this.moves = new Map();
    /** @type {string[]} */ this.declined = [];
    /** @type {Set<string>} keys of segments that changed */ this.stale = new Set();
  }

  /**
   * Update the edges to a slot. @param {number} slot @param {import("./slot_states.js").SlotState | undefined} mark @param {import("./scene.js").Scene} scene
   * @param {Int32Array} final node → the node that represents it now @param {Map<number, number>} before node → its previous representative, if the current decision changed it
   */
  read(slot, mark, scene, final, before) {
    const { trace } = this;
    const { operands, born } = trace.nodes;
    const old = this.drawn[slot];
    /** @type {{key: string, rank: number}[]} */ const drawn = [];
    this.moves.delete(slot);
    const isGhost = mark?.state === "gone" || mark?.state === "was";
    for (const operand of mark ? operands[mark.node] : []) {
      const producer = trace.slotOf[trace.origin(final[operand])];
      if (producer < 0 || producer === slot) continue;
      if (isGhost) {
        this.#draw(drawn, producer, slot, mark.state);
        continue;
      }
      // The ghost's node was read here.
      const was = trace.slotOf[trace.origin(operand)];
      const ghost = was === producer ? undefined : scene.slots.get(was);
      if (ghost?.state === "gone" || ghost?.state === "was") this.#draw(drawn, was, slot, ghost.state);
      const stood = before.get(operand);
      if (stood !== undefined && born[mark.node] < scene.moment.decision) this.#move(drawn, trace.slotOf[trace.origin(stood)], producer, slot);
      else this.#draw(drawn, producer, slot, mark.state === "new" ? "new" : "plain");
    }
    if (drawn.length || old) this.drawn[slot] = drawn;
    for (const { key, rank } of old ?? []) this.#count(key, rank, -1);
  }

  /** Mark the edges whose ends declined decisions keep apart, if they are drawn. @param {[number, number][]} pairs slots */
  decline(pairs) {
    for (const [producer, consumer] of pairs) {
      if (this.#isHidden(producer, consumer)) continue;
      for (const { key } of this.segments(producer, consumer)) {
        if (!this.edges.has(key)) continue;
        this.#count(key, RANK.declined, 1);
        this.declined.push(key);
        this.edges.get(key).apart ??= [producer, consumer];
      }
    }
  }

  /** Remove the marks of declined decisions. */
  forgive() {
    for (const key of this.declined) {
      delete this.edges.get(key).apart;
      this.#count(key, RANK.declined, -1);
    }
    this.declined = [];
  }

  #move(drawn, from, to, slot) {
    if (from === to || from < 0) return this.#draw(drawn, to, slot, "plain");
    this.#draw(drawn, to, slot, "moved");
    if (!this.moves.has(slot)) this.moves.set(slot, []);
    this.moves.get(slot).push({ before: this.segments(from, slot), after: this.segments(to, slot) });
  }

  /** Whether an edge is inside one closed box and therefore not drawn. */
  #isHidden(producer, consumer) {
    const { hiddenIn } = this.placement;
    return hiddenIn[consumer] >= 0 && hiddenIn[producer] === hiddenIn[consumer];
  }

  #draw(drawn, producer, consumer, state) {
    if (this.#isHidden(producer, consumer)) return;
    for (const { box, key } of this.segments(producer, consumer)) {
      if (!this.placement.composed.has(box)) continue;
      if (!this.edges.has(key)) this.edges.set(key, { state: "", counts: [0, 0, 0, 0, 0, 0] });
      this.#count(key, RANK[state], 1);
      drawn.push({ key, rank: RANK[state] });
    }
  }

  #count(key, rank, by) {
    const edge = this.edges.get(key);
    edge.counts[rank] += by;
    const state = STATES[edge.counts.reduce((highest, count, each) => (count > 0 ? each : highest), -1)];
    if (state === edge.state) return;
    this.stale.add(key);
    if (state === undefined) this.edges.delete(key);
    else edge.state = state;
  }

  /** Return the segments of an edge with their keys, cached because every step needs them. @returns {Piece[]} */
  segments(producer, consumer) {
    const key = producer * this.trace.layout.slots.length + consumer;
    let segments = this.cut.get(key);
    if (!segments) this.cut.set(key, (segments = this.paths.segments(producer, consumer).map((piece) => ({ box: piece[0], key: piece.join(":") }))));
    return segments;
  }
}
