// Export of a view as an image: everything on the canvas, visible or not, with styles written into the elements.

import { Canvas } from "../canvas/canvas.js";
import { html, put, svg } from "../dom.js";

const MARGIN = 22;
/** PNG px per canvas px, and the largest PNG that all browsers support: px per side and px in total. */
const [SHARP, SIDE, AREA] = [2, 16000, 1e8];

/** CSS properties of exported images. All except the last two are inherited. */
const TEXT = ["font-family", "font-size", "font-weight", "font-variant-numeric", "text-anchor"];
const INHERITED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "paint-order", ...TEXT];
const OWN = { opacity: "1", "text-decoration-line": "none" };
/** Attributes that belong to the page and are not exported. */
const OF_THE_PAGE = /^(?:class|style|role|tabindex|focusable|data-.*|aria-.*)$/;

/** Return the SVG image of a view as it is shown. @param {import("../view.js").View} view @returns {{text: string, width: number, height: number}} */
export function picture(view) {
  const canvas = new Canvas(view.trace);
  const [wide, high] = view.placement.size;
  canvas.place(view.placement);
  canvas.see([0, 0, wide, high]);
  canvas.show(view.scene, view.canvas.marks);
  // Types on edges are drawn only if the reader sees them at the current zoom.
  canvas.root.classList.toggle("ex-near", view.canvas.root.classList.contains("ex-near"));
  // The copy must be on the page for style sheets to apply, but invisible.
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

/** Return a copy of a drawn element with styles as attributes, without hidden parts. @param {Element} drawn */
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
        // Layers of the canvas are HTML elements, which other programs do not draw.
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

/** Convert a colour to rgb() or rgba(), which every drawing program supports; browsers compute mixed colours as "color(srgb 1 0.5 0 / 0.2)". */
function plainColour(value) {
  const parts = /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?\)$/.exec(value);
  if (!parts) return value;
  const bytes = parts.slice(1, 4).map((part) => Math.round(255 * Number(part)));
  return parts[4] === undefined ? `rgb(${bytes.join(", ")})` : `rgba(${bytes.join(", ")}, ${parts[4]})`;
}

/** Convert an image to PNG, with twice the canvas resolution if browsers support the size. @returns {Promise<Blob>} */
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
