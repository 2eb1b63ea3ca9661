// Rows of the tree of boxes: the boxes that hold something, outside in, inside those that are open.

/** @typedef {{key: number, level: number, place: number, count: number, holds: boolean, isOpen: boolean}} ScopeRow key: its box; place: among `count` boxes beside it, from 1; holds: other boxes */

/** Lists the rows of one layout. */
export class ScopeRows {
  /** @param {import("../types").LayoutTables} layout */
  constructor(layout) {
    /** @type {number[][]} box → the boxes in it */
    this.inner = layout.boxes.map(({ items }) => items.flatMap(({ box }) => (box === undefined ? [] : [box])));
  }

  /** @param {number} outermost @param {ReadonlyMap<number, any>} open @param {import("../data/totals.js").Cost[]} costs @returns {ScopeRow[]} */
  list(outermost, open, costs) {
    const isThere = (box) => costs[box].nodes > 0;
    const within = (box, level) => ({ boxes: this.inner[box].filter(isThere), place: 0, level });
    /** @type {ScopeRow[]} */ const rows = [];
    // A stack, since boxes may be nested ten thousand deep.
    const waiting = [within(outermost, 1)];
    while (waiting.length) {
      const part = waiting.at(-1);
      if (part.place >= part.boxes.length) {
        waiting.pop();
        continue;
      }
      const key = part.boxes[part.place++];
      const isOpen = open.has(key);
      rows.push({ key, level: part.level, place: part.place, count: part.boxes.length, holds: this.inner[key].some(isThere), isOpen });
      if (isOpen) waiting.push(within(key, part.level + 1));
    }
    return rows;
  }
}
