// The picture of a view as a file: all that stands on the canvas, in sight or not, with its styles written into the elements.

import { Canvas } from "../canvas/canvas.js";
import { html, put, svg } from "../dom.js";

const MARGIN = 22;
/** px of the PNG for one of the canvas, and the largest PNG that all browsers make: px a side, px in all. */
const [SHARP, SIDE, AREA] = [2, 16000, 1e8];

/** CSS properties of pictures. Each is inherited but the last two. */
const TEXT = ["font-family", "font-size", "font-weight", "font-variant-numeric", "text-anchor"];
const INHERITED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "paint-order", ...TEXT];
const OWN = { opacity: "1", "text-decoration-line": "none" };
/** Attributes of an element that belong to the page and not to the picture. */
const OF_THE_PAGE = /^(?:class|style|role|tabindex|focusable|data-.*|aria-.*)$/;

/** The picture of a view, as it is shown. @param {import("../view.js").View} view @returns {{text: string, width: number, height: number}} */
export function picture(view) {
  const canvas = new Canvas(view.trace);
  const [wide, high] = view.placement.size;
  canvas.place(view.placement);
  canvas.see([0, 0, wide, high]);
  canvas.show(view.scene, view.canvas.marks);
  // Types on edges are drawn where the reader sees them, who is near enough to read them.
  canvas.root.classList.toggle("ex-near", view.canvas.root.classList.contains("ex-near"));
  // On the page, or no style sheet would apply; out of sight.
  const stand = html("div", { class: "ex-beyond", "aria-hidden": "true" }, canvas.root);
  view.root.append(stand);
  try {
    const [width, height] = [wide + 2 * MARGIN, high + 2 * MARGIN];
    const ground = svg("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: plainColour(getComputedStyle(view.root).backgroundColor) });
    const root = svg("svg", { viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, width, height }, svg("title", {}, view.trace.recording.title || "recording"), ground, styled(canvas.root));
    return { text: new XMLSerializer().serializeToString(root), width, height };
  } finally {
    stand.remove();
  }
}

/** A copy of a drawn element whose styles are attributes, without those parts that are not drawn. @param {Element} drawn */
function styled(drawn) {
  const copy = svg("g");
  /** @type {[Element, Element, CSSStyleDeclaration | null][]} */ const waiting = [[drawn, copy, null]];
  while (waiting.length) {
    const [source, target, above] = waiting.pop();
    const style = getComputedStyle(source);
    write(target, style, above);
    for (const child of source.childNodes) {
      if (!(child instanceof Element)) target.append(child.cloneNode());
      else if (getComputedStyle(child).display !== "none" || child.localName === "title") {
        // Layers of the canvas are elements of HTML, which other programs do not draw.
        const clone = child instanceof SVGElement ? /** @type {Element} */ (child.cloneNode()) : svg("g");
        for (const { name } of [...clone.attributes]) if (OF_THE_PAGE.test(name)) clone.removeAttribute(name);
        target.append(clone);
        waiting.push([child, clone, style]);
      }
    }
  }
  return copy;
}

function write(target, style, above) {
  if (target.localName === "title") return;
  for (const name of INHERITED) {
    const value = style.getPropertyValue(name);
    if (!above || above.getPropertyValue(name) !== value) put(target, name, plainColour(value));
    else target.removeAttribute(name);
  }
  for (const [name, initial] of Object.entries(OWN)) {
    const value = style.getPropertyValue(name);
    if (value !== initial) put(target, name === "text-decoration-line" ? "text-decoration" : name, value);
  }
}

/** A colour as every drawing program reads it: browsers compute mixed ones as "color(srgb 1 0.5 0 / 0.2)". */
function plainColour(value) {
  const parts = /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?\)$/.exec(value);
  if (!parts) return value;
  const bytes = parts.slice(1, 4).map((part) => Math.round(255 * Number(part)));
  return parts[4] === undefined ? `rgb(${bytes.join(", ")})` : `rgba(${bytes.join(", ")}, ${parts[4]})`;
}

/** A picture as PNG, twice as fine as on the canvas where browsers can. @returns {Promise<Blob>} */
export async function pixels({ text, width, height }) {
  const scale = Math.min(SHARP, SIDE / Math.max(width, height), Math.sqrt(AREA / (width * height)));
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error(`the browser makes no PNG of ${canvas.width} × ${canvas.height} px`)))));
  } finally {
    URL.revokeObjectURL(address);
  }
}
