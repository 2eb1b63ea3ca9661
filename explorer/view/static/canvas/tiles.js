// Tiles of the canvas. Tiles that were never visible have no elements, so the cost of a frame or step depends only on the visible part.

import { html, svg, whenIdle } from "../dom.js";

/** World px: the side of a tile, the margin around the visible part in which tiles are kept, and the overhang of strokes and signs beyond their rectangles. */
const [SIDE, AROUND, BEYOND] = [900, 700, 40];
/** Number of keys up to which everything stays drawn, because a small graph gains nothing. */
const FEW = 400;

/**
 * @typedef {{keys: Set<string>, stale: Set<string>, group: SVGSVGElement | null, version: number}} Tile stale: keys to be drawn again; group: created when first visible
 */

/** Elements of one layer, grouped by position. */
export class Tiles {
  /** @param {string} name the class of the layer @param {(key: string) => SVGGraphicsElement | null} draw updates and returns the element of a key; null if there is nothing to see */
  constructor(name, draw) {
    this.draw = draw;
    this.root = html("div", { class: name });
    /** items larger than a tile, which are treated as always visible */ this.whole = this.#make();
    /** @type {Map<string, Tile>} */ this.tiles = new Map();
    /** @type {Map<string, Tile>} key → its tile */ this.where = new Map();
    /** @type {Map<string, SVGGraphicsElement>} */ this.elements = new Map();
    /** @type {Tile | undefined} the tile of the item that has the focus */ this.held = undefined;
    /** @type {Set<Tile>} */ this.shown = new Set();
    /** @type {number[][]} */ this.sights = [];
    /** Maximum px by which a key extends beyond its tile */ this.reach = 0;
    /** whether tiles around the visible part wait to be drawn */ this.waiting = false;
    this.count = 0;
    this.version = 0;
    this.ready = false;
  }

  #make() {
    return { keys: new Set(), stale: new Set(), group: null, version: -1 };
  }

  /** Enter a key with its rectangle; the next renewal draws it if its tile is visible then. @param {string} key @param {number[]} rect */
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

  /** Remove a key and its element. @param {string} key */
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

  /** Draw a key again when the layer is shown next, if its tile is visible then. @param {string} key */
  touch(key) {
    this.where.get(key)?.stale.add(key);
  }

  /** Draw nothing until the next renewal, because the entered items belong to another placement than the scene. @param {number} count keys of all layers */
  pause(count) {
    this.count = count;
    this.ready = false;
  }

  /** Draw the visible items again now, and the rest when it becomes visible; with `touched`, only the touched items. @param {boolean} [touched] */
  renew(touched = false) {
    this.ready = true;
    if (!touched) this.version++;
    this.#show();
  }

  /** Draw the items in some world rectangles. @param {number} count keys of all layers @param {...number[]} sights */
  see(count, ...sights) {
    this.count = count;
    this.sights = sights;
    this.#show();
  }

  /** Keep the tile of a key drawn even if it is not visible, so that the key's item can have the focus. @param {string} key */
  hold(key) {
    const tile = this.where.get(key);
    if (tile === this.held) return;
    this.held = tile;
    this.#show();
  }

  /** Draw the visible tiles now and the surrounding ones when the browser is idle. */
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

  /** Whether a tile has outdated or missing drawings. @param {Tile} tile */
  #isOld(tile) {
    return tile.version !== this.version || tile.stale.size > 0 || !this.shown.has(tile);
  }

  /** Update a tile. @param {Tile} tile */
  #bring(tile) {
    if (!this.#isOld(tile)) return;
    if (!this.shown.has(tile)) this.#reveal(tile);
    for (const key of tile.version === this.version ? tile.stale : tile.keys) this.#renew(tile, key);
    tile.version = this.version;
    tile.stale.clear();
  }

  /** Attach a tile. Each tile is its own top-level svg element, because a browser lays out and paints one again only if something in it changes. */
  #reveal(tile) {
    this.shown.add(tile);
    if (tile.group) return tile.group.classList.remove("ex-none");
    tile.group = svg("svg", { class: "ex-tile", role: "none" });
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

  /** Return the tiles to draw. @param {number} around px around the visible part */
  #wanted(around) {
    const wanted = new Set(this.held ? [this.held] : []);
    if (this.count <= FEW) for (const tile of [this.whole, ...this.tiles.values()]) wanted.add(tile);
    else for (const sight of this.sights) for (const tile of this.#near(sight, around)) wanted.add(tile);
    return wanted;
  }

  /** Yield the tiles in or near a rectangle, always including the tile of larger items. @param {number[]} rect @param {number} around @returns {Iterable<Tile>} */
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

  /** Yield the keys that may be in a world rectangle. @param {number[]} rect @returns {Iterable<string>} */
  *within(rect) {
    for (const tile of this.#near(rect, AROUND)) yield* tile.keys;
  }
}
