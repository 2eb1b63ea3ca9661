// Camera synchronisation: the node in the middle of one view is in the middle of the other.

/** Maps points of one graph to the other, by the places of nodes that stand for each other. */
export class CameraSync {
  /** @param {import("../view.js").View[]} views @param {import("./differences.js").Differences} differences */
  constructor(views, differences) {
    this.views = views;
    this.differences = differences;
    /** a node that only one side has, beside the nearest counterpart: their slots @type {{side: number, own: number, other: number} | null} */ this.held = null;
    this.slots = this.#slots(differences);
    this.counterparts = [null, null];
  }

  /** Slot before → slot after. */
  #slots(differences) {
    const [before, after] = this.views.map(({ trace }) => trace);
    return before.layout.slots.map(({ nodes }) => {
      for (const node of nodes) {
        const partner = differences.partner(0, node);
        if (partner >= 0 && after.slotOf[partner] >= 0) return after.slotOf[partner];
      }
      return -1;
    });
  }

  /** For each side: box → the box of the other side that stands for it. @returns {Map<number, number>[]} */
  get boxes() {
    this.counterparts.forEach((known, side) => (this.counterparts[side] = known ?? this.#boxes(side)));
    return this.counterparts;
  }

  /** Box of one side → the box of the other side that holds most of the same. */
  #boxes(side) {
    const [own, other] = [this.views[side], this.views[1 - side]];
    const common = new Map();
    const sizes = [new Map(), new Map()];
    this.slots.forEach((after, before) => {
      const [slot, partner] = side ? [after, before] : [before, after];
      if (slot < 0 || partner < 0) return;
      const [around, there] = [own.paths.around(slot), other.paths.around(partner)];
      for (const [index, path] of [around, there].entries()) for (const box of path) sizes[index].set(box, (sizes[index].get(box) ?? 0) + 1);
      for (const box of around) {
        const counts = entry(common, box, () => new Map());
        for (const each of there) counts.set(each, (counts.get(each) ?? 0) + 1);
      }
    });
    const counterparts = new Map();
    const boxes = [own.trace.layout.boxes, other.trace.layout.boxes];
    for (const [box, others] of common) {
      let most = ALIKE;
      // Of boxes that hold equally much, the one as deep: a box around another is chosen before one inside it.
      for (const [each, count] of others) {
        const depth = Math.abs(own.paths.depth[box] - other.paths.depth[each]);
        const named = boxes[0][box].label === boxes[1][each].label ? NAMED : 0;
        // Common nodes over all nodes of both, so that a box inside or around the wanted one counts less.
        const share = count / (sizes[0].get(box) + sizes[1].get(each) - count) + named - depth / 1000;
        if (share > most) [most] = [share, counterparts.set(box, each)];
      }
    }
    return counterparts;
  }

  /** For each side: x, y of the items that show nodes, and x, y of the items that show most of their counterparts on the other side. */
  #anchors() {
    const [before, after] = this.views.map(({ placement }) => placement);
    if (this.known?.before === before && this.known.after === after) return this.known.anchors;
    const common = [new Map(), new Map()];
    this.slots.forEach((partner, slot) => {
      if (partner < 0) return;
      const shown = [before.shows(slot), after.shows(partner)];
      if (!shown[0] || !shown[1]) return;
      for (const side of [0, 1]) {
        const counts = entry(common[side], shown[side], () => new Map());
        counts.set(shown[1 - side], (counts.get(shown[1 - side]) ?? 0) + 1);
      }
    });
    const anchors = common.map((partners) => [...partners].map(([rect, counts]) => [...middle(rect), ...middle(mostOf(counts))]));
    this.known = { before, after, anchors };
    return anchors;
  }

  /** Keep the nearest counterpart beside a node that only one side has; −1 ends it. @param {number} side @param {number} node @returns {number} the node of the other side, −1 where there is none */
  hold(side, node) {
    const [own, other] = [this.views[side].trace, this.views[1 - side].trace];
    const near = node < 0 ? -1 : this.#nearest(side, node);
    this.held = near < 0 ? null : { side, own: own.slotOf[own.origin(node)], other: other.slotOf[other.origin(near)] };
    return near;
  }

  /** The counterpart of the node, of those that both sides show now, to which the fewest edges lead; −1 where there is none. */
  #nearest(side, node) {
    const { trace } = this.views[side];
    const other = this.views[1 - side];
    const reached = new Set([node]);
    for (const each of reached) {
      const partner = this.differences.partner(side, each);
      if (partner >= 0 && other.trace.exists(partner, other.now.position)) return partner;
      for (const next of [...trace.nodes.operands[each], ...trace.readers.of(each)]) reached.add(next);
    }
    return -1;
  }

  /** The place of the held node and that of its nearest counterpart, as an anchor. */
  #holding(side) {
    if (this.held?.side !== side) return [];
    const [own, other] = [this.views[side].placement.shows(this.held.own), this.views[1 - side].placement.shows(this.held.other)];
    return own && other ? [[...middle(own), ...middle(other)]] : [];
  }

  /** Where a point of one side is on the other: moved as the items near it, the nearest most. */
  point(side, x, y) {
    let [weights, dx, dy] = [0, 0, 0];
    for (const [ownX, ownY, otherX, otherY] of [...this.#anchors()[side], ...this.#holding(side)]) {
      // Of the fourth power of the distance: near the nodes of a box only these decide. The 1 keeps it finite.
      const weight = 1 / ((ownX - x) ** 2 + (ownY - y) ** 2 + 1) ** 2;
      weights += weight;
      dx += weight * (otherX - ownX);
      dy += weight * (otherY - ownY);
    }
    // Graphs without a common node in sight are moved in proportion.
    if (weights) return [x + dx / weights, y + dy / weights];
    const [own, other] = [this.views[side].placement.size, this.views[1 - side].placement.size];
    return [(x * other[0]) / own[0], (y * other[1]) / own[1]];
  }

  /** Let the other camera stand where that of one side does. @param {number} side */
  align(side) {
    const [own, other] = [this.views[side], this.views[1 - side]];
    if (!own.room.width || !other.room.width || !own.placement || !other.placement) return;
    const [x, y, wide, high] = own.camera.sight();
    other.camera.stand(own.camera.scale, ...this.point(side, x + wide / 2, y + high / 2), own.camera.gliding);
  }
}

/** The part of the contents of two boxes that must be the same for one to stand for the other. */
const ALIKE = 0.5;
/** The weight of a common name. */
const NAMED = 0.3;

function entry(table, key, make) {
  if (!table.has(key)) table.set(key, make());
  return table.get(key);
}

function middle(/** @type {import("../scene/placement.js").Rect} */ [x, y, wide, high]) {
  return [x + wide / 2, y + high / 2];
}

/** The key of the largest count. */
function mostOf(counts) {
  let [best, most] = [null, 0];
  for (const [key, count] of counts) if (count > most) [best, most] = [key, count];
  return best;
}
