// Tiles of the canvas: parts that were never in sight have no elements, so that a frame and a step cost only the visible part of the graph.

import { html, svg, whenIdle } from "../dom.js";

/** px of the world: a side of a tile, how far around the sight tiles stay, and by how much strokes and signs go beyond the rectangles that are filed. */
const [SIDE, AROUND, BEYOND] = [900, 700, 40];
/** Keys up to which everything stays drawn: a small graph gains nothing. */
const FEW = 400;

/**
 * @typedef {{keys: Set<string>, stale: Set<string>, group: SVGSVGElement | null, version: number}} Tile stale: keys to be drawn anew; group: made when first in sight
 */

/** Elements of one layer, by place. */
export class Tiles {
  /** @param {string} name the class of the layer @param {(key: string) => SVGGraphicsElement | null} draw brings the element of a key up to date; null where nothing is to be seen */
  constructor(name, draw) {
    this.draw = draw;
    this.root = html("div", { class: name });
    /** items larger than a tile: as near as anything is in sight */ this.whole = this.#make();
    /** @type {Map<string, Tile>} */ this.tiles = new Map();
    /** @type {Map<string, Tile>} key → its tile */ this.where = new Map();
    /** @type {Map<string, SVGGraphicsElement>} */ this.elements = new Map();
    /** @type {Tile | undefined} the tile of the item that has the focus */ this.held = undefined;
    /** @type {Set<Tile>} */ this.shown = new Set();
    /** @type {number[][]} */ this.sights = [];
    /** px by which a key may reach out of its tile */ this.reach = 0;
    /** whether tiles around the sight wait to be drawn */ this.waiting = false;
    this.count = 0;
    this.version = 0;
    this.ready = false;
  }

  #make() {
    return { keys: new Set(), stale: new Set(), group: null, version: -1 };
  }

  /** File a key under its rectangle; the next renewal draws it, if its tile is in sight then. @param {string} key @param {number[]} rect */
  put(key, [x, y, wide, high]) {
    const isLarge = wide > SIDE || high > SIDE;
    if (!isLarge) this.reach = Math.max(this.reach, wide / 2, high / 2);
    const tile = isLarge ? this.whole : this.#tile(Math.floor((x + wide / 2) / SIDE), Math.floor((y + high / 2) / SIDE));
    const before = this.where.get(key);
    if (before === tile) return;
    if (before) this.drop(key);
    tile.keys.add(key);
    tile.stale.add(key);
    this.where.set(key, tile);
  }

  #tile(column, row) {
    const key = `${column}:${row}`;
    let tile = this.tiles.get(key);
    if (!tile) this.tiles.set(key, (tile = this.#make()));
    return tile;
  }

  /** Take a key and its element away. @param {string} key */
  drop(key) {
    this.where.get(key)?.keys.delete(key);
    this.where.get(key)?.stale.delete(key);
    this.where.delete(key);
    this.#erase(key);
  }

  #erase(key) {
    this.elements.get(key)?.remove();
    this.elements.delete(key);
  }

  /** Draw a key anew when the layer is shown next, if its tile is in sight then. @param {string} key */
  touch(key) {
    this.where.get(key)?.stale.add(key);
  }

  /** Draw nothing until the next renewal: the filed items are of another placement than the scene. @param {number} count keys of all layers */
  pause(count) {
    this.count = count;
    this.ready = false;
  }

  /** Draw the items in sight anew now, and the rest when it comes into sight; or, of it all, only the touched ones. @param {boolean} [touched] */
  renew(touched = false) {
    this.ready = true;
    if (!touched) this.version++;
    this.#show();
  }

  /** Draw the items in some rectangles of the world. @param {number} count keys of all layers @param {...number[]} sights */
  see(count, ...sights) {
    this.count = count;
    this.sights = sights;
    this.#show();
  }

  /** Keep the tile of a key drawn, whatever is in sight: it can have the focus. @param {string} key */
  hold(key) {
    const tile = this.where.get(key);
    if (tile === this.held) return;
    this.held = tile;
    this.#show();
  }

  /** Draw the tiles in sight now, those around when the browser is idle. */
  #show() {
    const wanted = this.#wanted(AROUND);
    for (const tile of this.shown) {
      if (wanted.has(tile)) continue;
      this.shown.delete(tile);
      tile.group.classList.add("ex-none");
    }
    if (!this.ready) return;
    for (const tile of this.#wanted(this.reach + BEYOND)) this.#bring(tile);
    this.#later(wanted);
  }

  /** @param {Set<Tile>} wanted */
  #later(wanted) {
    if (this.waiting || ![...wanted].some((tile) => this.#isOld(tile))) return;
    this.waiting = true;
    whenIdle((hasTime) => {
      this.waiting = false;
      if (!this.ready || !this.root.isConnected) return;
      const around = this.#wanted(AROUND);
      for (const tile of around) {
        if (!this.#isOld(tile)) continue;
        this.#bring(tile);
        if (!hasTime()) break;
      }
      this.#later(around);
    });
  }

  /** Whether something of a tile is not drawn as it is now. @param {Tile} tile */
  #isOld(tile) {
    return tile.version !== this.version || tile.stale.size > 0 || !this.shown.has(tile);
  }

  /** Bring a tile up to date. @param {Tile} tile */
  #bring(tile) {
    if (!this.#isOld(tile)) return;
    if (!this.shown.has(tile)) this.#reveal(tile);
    for (const key of tile.version === this.version ? tile.stale : tile.keys) this.#renew(tile, key);
    tile.version = this.version;
    tile.stale.clear();
  }

  /** A tile is an svg element of its own, and none within another: a browser lays out and paints one anew only if something in it changes. */
  #reveal(tile) {
    this.shown.add(tile);
    if (tile.group) return tile.group.classList.remove("ex-none");
    tile.group = svg("svg", { class: "ex-tile", overflow: "visible", role: "none" });
    if (tile === this.whole) this.root.prepend(tile.group);
    else this.root.append(tile.group);
  }

  #renew(tile, key) {
    const element = this.draw(key);
    if (this.elements.get(key) !== element) this.#erase(key);
    if (!element) return;
    this.elements.set(key, element);
    if (element.parentNode !== tile.group) tile.group.append(element);
  }

  /** The tiles that are to be seen. @param {number} around px around the sight */
  #wanted(around) {
    const wanted = new Set(this.held ? [this.held] : []);
    if (this.count <= FEW) for (const tile of [this.whole, ...this.tiles.values()]) wanted.add(tile);
    else for (const sight of this.sights) for (const tile of this.#near(sight, around)) wanted.add(tile);
    return wanted;
  }

  /** The tiles in or near a rectangle; the one of larger items always is. @param {number[]} rect @param {number} around @returns {Iterable<Tile>} */
  *#near(/** @type {number[]} */ [x, y, wide, high], around) {
    yield this.whole;
    /** @type {number[]} */ const [left, top, right, bottom] = [x - around, y - around, x + wide + around, y + high + around].map((edge) => Math.floor(edge / SIDE));
    const isFew = (right - left + 1) * (bottom - top + 1) < this.tiles.size;
    for (let column = left; isFew && column <= right; column++) {
      for (let row = top; row <= bottom; row++) if (this.tiles.has(`${column}:${row}`)) yield this.tiles.get(`${column}:${row}`);
    }
    if (isFew) return;
    for (const [key, tile] of this.tiles) {
      const [column, row] = key.split(":").map(Number);
      if (column >= left && column <= right && row >= top && row <= bottom) yield tile;
    }
  }

  /** Keys that may stand in a rectangle of the world. @param {number[]} rect @returns {Iterable<string>} */
  *within(rect) {
    for (const tile of this.#near(rect, AROUND)) yield* tile.keys;
  }
}
