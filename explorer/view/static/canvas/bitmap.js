// A bitmap of rectangles and lines. Its cost depends on the pixels covered, so it draws 100,000 shapes faster than canvas calls would.

import { html } from "../dom.js";

/** Pixel buffer that is drawn onto a `<canvas>`. */
export class Bitmap {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.pen = canvas.getContext("2d");
    /** @type {ImageData | null} */ this.image = null;
    this.words = new Uint32Array(0);
    this.wide = this.high = 0;
    this.density = 1;
    /** @type {Map<string, number>} */ this.known = new Map();
    // One pixel in CPU memory. Reading it back from the GPU would take one frame for each colour.
    this.probe = html("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  }

  /** Begin an empty image. @param {number} wide CSS px @param {number} high */
  begin(wide, high) {
    this.density = devicePixelRatio || 1;
    [this.wide, this.high] = [Math.max(1, Math.round(wide * this.density)), Math.max(1, Math.round(high * this.density))];
    const { canvas } = this.pen;
    if (canvas.width !== this.wide || canvas.height !== this.high) [canvas.width, canvas.height] = [this.wide, this.high];
    this.image = new ImageData(this.wide, this.high);
    this.words = new Uint32Array(this.image.data.buffer);
  }

  /** Return a CSS colour as a 32-bit pixel. @param {string} css */
  colour(css) {
    let word = this.known.get(css);
    if (word === undefined) {
      this.probe.clearRect(0, 0, 1, 1);
      this.probe.fillStyle = css;
      this.probe.fillRect(0, 0, 1, 1);
      this.known.set(css, (word = new Uint32Array(this.probe.getImageData(0, 0, 1, 1).data.buffer)[0]));
    }
    return word;
  }

  /** Mix two colours. @param {number} from @param {number} to @param {number} share fraction of the second, 0 … 1 */
  mix(from, to, share) {
    const part = (shift) => Math.round(((from >>> shift) & 255) * (1 - share) + ((to >>> shift) & 255) * share) << shift;
    return (part(0) | part(8) | part(16) | part(24)) >>> 0;
  }

  /** Fill a rectangle given in CSS px, at least one pixel in size. @param {number} x @param {number} y @param {number} wide @param {number} high @param {number} word a colour */
  fill(x, y, wide, high, word) {
    const [left, top] = [Math.round(x * this.density), Math.round(y * this.density)];
    const right = Math.min(this.wide, Math.max(left + 1, Math.round((x + wide) * this.density)));
    const bottom = Math.min(this.high, Math.max(top + 1, Math.round((y + high) * this.density)));
    const from = Math.max(0, left);
    if (from >= right) return;
    for (let row = Math.max(0, top); row < bottom; row++) this.words.fill(word, row * this.wide + from, row * this.wide + right);
  }

  /** Fill a rectangle with a border of one pixel, if it is large enough for a border. */
  bordered(x, y, wide, high, border, ground) {
    this.fill(x, y, wide, high, border);
    const edge = 1 / this.density;
    if (wide > 4 && high > 4) this.fill(x + edge, y + edge, wide - 2 * edge, high - 2 * edge, ground);
  }

  /** Draw a straight line. */
  line(x0, y0, x1, y1, word) {
    const [dx, dy] = [(x1 - x0) * this.density, (y1 - y0) * this.density];
    const steps = Math.max(1, Math.ceil(Math.max(Math.abs(dx), Math.abs(dy))));
    // Draw only the visible part of a line that extends far beyond the image.
    if (steps > 4 * (this.wide + this.high)) return;
    let [x, y] = [x0 * this.density, y0 * this.density];
    for (let step = 0; step <= steps; step++, x += dx / steps, y += dy / steps) {
      if (x >= 0 && x < this.wide && y >= 0 && y < this.high) this.words[(y | 0) * this.wide + (x | 0)] = word;
    }
  }

  /** Copy the image to the canvas. */
  end() {
    this.pen.putImageData(this.image, 0, 0);
  }
}
