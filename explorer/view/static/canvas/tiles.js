// Tiles of the canvas: distant elements are not drawn, so that a step costs only the visible part of the graph.

import { svg } from "../dom.js";

/** px of the world a side of a tile, and how far around the sight tiles stay. */
const [SIDE, AROUND] = [900, 700];
/** Elements up to which everything stays drawn: a small graph gains nothing. */
const FEW = 400;

/** Holds elements of one layer by where they stand. */
export class Tiles {
  /** @param {string} name the class of the layer */
  constructor(name) {
    this.whole = svg("g");
    this.root = svg("g", { class: name }, this.whole);
    /** @type {Map<string, {group: SVGGElement, at: number[], hidden: boolean}>} */ this.tiles = new Map();
    this.held = null;
    this.count = 0;
    /** @type {number[][]} */ this.sights = [];
  }

  /** Put an element where its rectangle belongs; one that is larger than a tile is always drawn. */
  put(element, [x, y, wide, high]) {
    const group = wide > SIDE || high > SIDE ? this.whole : this.#tile(x + wide / 2, y + high / 2).group;
    if (element.parentNode !== group) group.append(element);
  }

  #tile(x, y) {
    const [column, row] = [Math.floor(x / SIDE), Math.floor(y / SIDE)];
    const key = `${column}:${row}`;
    let tile = this.tiles.get(key);
    if (!tile) {
      tile = { group: svg("g"), at: [column * SIDE, row * SIDE], hidden: false };
      this.tiles.set(key, tile);
      this.root.append(tile.group);
      this.#show(tile);
    }
    return tile;
  }

  /** Draw what some rectangles of the world hold. @param {number} count elements in all @param {...number[]} sights */
  see(count, ...sights) {
    this.count = count;
    this.sights = sights;
    for (const tile of this.tiles.values()) this.#show(tile);
  }

  /** Keep the tile of one element drawn, whatever is in sight: it can have the focus. @param {Element | undefined} element */
  hold(element) {
    const group = element && this.root.contains(element) ? element.parentNode : null;
    if (group === this.held) return;
    this.held = group;
    for (const tile of this.tiles.values()) this.#show(tile);
  }

  #show(tile) {
    const seen = this.count <= FEW || tile.group === this.held || this.sights.some((sight) => near(tile.at, sight));
    if (seen !== tile.hidden) return;
    tile.hidden = !seen;
    tile.group.classList.toggle("ex-none", tile.hidden);
  }
}

function near([left, top], [x, y, wide, high]) {
  return left < x + wide + AROUND && left + SIDE > x - AROUND && top < y + high + AROUND && top + SIDE > y - AROUND;
}
