// Camera synchronisation: both views are centered on corresponding nodes.

/** Map from points of one graph to points of the other, interpolated between corresponding nodes. */
export class CameraSync {
  /** @param {import("../view.js").View[]} views @param {import("./differences.js").Differences} differences */
  constructor(views, differences) {
    this.views = views;
    this.differences = differences;
    /** the slots of a node that exists on one side only and of its nearest counterpart on the other @type {{side: number, own: number, other: number} | null} */ this.held = null;
    this.slots = this.#slots(differences);
    this.counterparts = [null, null];
  }

  /** Return a map from slots before to slots after. */
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

  /** For each side: box → the corresponding box of the other side. @returns {Map<number, number>[]} */
  get boxes() {
    this.counterparts.forEach((known, side) => (this.counterparts[side] = known ?? this.#boxes(side)));
    return this.counterparts;
  }

  /** Return a map from boxes of one side to the boxes of the other side that share most of their contents. */
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
      // Of boxes with equal shares, choose the one of equal depth, so outer boxes come before inner ones.
      for (const [each, count] of others) {
        const depth = Math.abs(own.paths.depth[box] - other.paths.depth[each]);
        const named = boxes[0][box].label === boxes[1][each].label ? NAMED : 0;
        // Common nodes divided by all nodes of both, so that a box inside or around the right one has a lower score.
        const share = count / (sizes[0].get(box) + sizes[1].get(each) - count) + named - depth / 1000;
        if (share > most) [most] = [share, counterparts.set(box, each)];
      }
    }
    return counterparts;
  }

  /** Return for each side the x, y of the items that show nodes and the x, y of the items that show most of their counterparts on the other side. */
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

  /** Align a node that exists on one side only with its nearest counterpart; −1 ends this. @param {number} side @param {number} node @returns {number} the node of the other side, −1 if there is none */
  hold(side, node) {
    const [own, other] = [this.views[side].trace, this.views[1 - side].trace];
    const near = node < 0 ? -1 : this.#nearest(side, node);
    this.held = near < 0 ? null : { side, own: own.slotOf[own.origin(node)], other: other.slotOf[other.origin(near)] };
    return near;
  }

  /** Return the nearest counterpart, by number of edges, among the nodes that both sides show now; −1 if there is none. */
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

  /** Return the positions of the held node and its nearest counterpart as an anchor. */
  #holding(side) {
    if (this.held?.side !== side) return [];
    const [own, other] = [this.views[side].placement.shows(this.held.own), this.views[1 - side].placement.shows(this.held.other)];
    return own && other ? [[...middle(own), ...middle(other)]] : [];
  }

  /** Map a point of one side to the other. It moves as the items near it do, weighted by distance. */
  point(side, x, y) {
    let [weights, dx, dy] = [0, 0, 0];
    for (const [ownX, ownY, otherX, otherY] of [...this.#anchors()[side], ...this.#holding(side)]) {
      // The weight falls with the fourth power of the distance, so near the nodes of a box only these count. The 1 keeps it finite.
      const weight = 1 / ((ownX - x) ** 2 + (ownY - y) ** 2 + 1) ** 2;
      weights += weight;
      dx += weight * (otherX - ownX);
      dy += weight * (otherY - ownY);
    }
    // Graphs without a common visible node are moved in proportion.
    if (weights) return [x + dx / weights, y + dy / weights];
    const [own, other] = [this.views[side].placement.size, this.views[1 - side].placement.size];
    return [(x * other[0]) / own[0], (y * other[1]) / own[1]];
  }

  /** Move the other camera to match the camera of `side`. @param {number} side */
  align(side) {
    const [own, other] = [this.views[side], this.views[1 - side]];
    if (!own.room.width || !other.room.width || !own.placement || !other.placement) return;
    const [x, y, wide, high] = own.camera.sight();
    other.camera.stand(own.camera.scale, ...this.point(side, x + wide / 2, y + high / 2), own.camera.gliding);
  }
}

/** Minimum fraction of common contents for two boxes to correspond. */
const ALIKE = 0.5;
/** Weight of a common name. */
const NAMED = 0.3;

function entry(table, key, make) {
  if (!table.has(key)) table.set(key, make());
  return table.get(key);
}

function middle(/** @type {import("../scene/placement.js").Rect} */ [x, y, wide, high]) {
  return [x + wide / 2, y + high / 2];
}

/** Return the key of the largest count. */
function mostOf(counts) {
  let [best, most] = [null, 0];
  for (const [key, count] of counts) if (count > most) [best, most] = [key, count];
  return best;
}
