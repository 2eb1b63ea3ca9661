// Reasons are templates with facts; these are the rules of record/reasons.py, and a test holds both to the same sentences.

/** A number with three significant digits, as Python's ".3g" writes it. @param {number} value */
export function general(value) {
  if (!Number.isFinite(value)) return special(value);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const exponent = Number(value.toExponential(2).split("e")[1]);
  if (exponent < -4 || exponent >= 3) {
    const [digits, power] = value.toExponential(2).split("e");
    return trimmed(digits) + "e" + power[0] + power.slice(1).padStart(2, "0");
  }
  return trimmed(value.toFixed(Math.max(0, 2 - exponent)));
}

function trimmed(digits) {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}

function special(value) {
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/** From here on three digits would read 1e+03: the next unit says it better. */
const ROUNDS_UP = 999.5;

/** 512 B, 6 KB, 1.5 MB; 1 KB is 1024 bytes. @param {number} count */
export function bytesText(count) {
  if (Math.abs(count) < 1024) return `${count.toFixed(0)} B`;
  for (const unit of ["KB", "MB"]) {
    count /= 1024;
    if (Math.abs(count) < ROUNDS_UP) return `${general(count)} ${unit}`;
  }
  return `${general(count / 1024)} GB`;
}

/** 950, 25 K, 1.82 G. @param {number} count */
export function countText(count) {
  if (Math.abs(count) < ROUNDS_UP) return count.toFixed(0);
  for (const unit of ["K", "M"]) {
    count /= 1000;
    if (Math.abs(count) < ROUNDS_UP) return `${general(count)} ${unit}`;
  }
  return `${general(count / 1000)} G`;
}

/** 3.4 µs, 12.1 ms, 2.5 s. @param {number} micros */
export function microsText(micros) {
  if (micros < ROUNDS_UP) return `${general(micros)} µs`;
  return micros < 1000 * ROUNDS_UP ? `${general(micros / 1000)} ms` : `${general(micros / 1e6)} s`;
}

/** A whole number with commas. @param {number} value */
export function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A float as Python writes it. @param {number} value */
function plain(value) {
  if (!Number.isFinite(value)) return special(value);
  const [digits, power] = value.toExponential().split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 16) return String(value);
  return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** @typedef {{text: string, node: number}} Fragment a piece of a sentence; node −1 is plain text */

/** Say one fact in fragments. @param {string} name @param {unknown} value @param {(node: number) => string} label */
export function factFragments(name, value, label) {
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => {
      const joint = index === 0 ? "" : index === value.length - 1 ? " and " : ", ";
      const said = factFragments(name, item, label);
      return joint ? [{ text: joint, node: -1 }, ...said] : said;
    });
  }
  if (value !== null && typeof value === "object") return [{ text: label(value.node), node: value.node }];
  return [{ text: scalarText(name, value), node: -1 }];
}

function scalarText(name, value) {
  if (typeof value === "number") {
    if (name.endsWith("_bytes")) return bytesText(value);
    if (name.endsWith("_us")) return microsText(value);
    if (name.endsWith("_flops")) return `${countText(value)} flops`;
    return Number.isInteger(value) ? grouped(value) : plain(value);
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === null ? "None" : String(value);
}

const FIELD = /\{([\p{L}\p{N}_]+)(?::([^{}|]+)(?:\|([^{}|]+))?)?\}/u;

/** The sentence of a decision in fragments, so that nodes in it can be links; {name:noun} counts, as in "3 places". */
export function sentence(template, facts, label) {
  const parts = template.split(FIELD);
  const said = [];
  for (let index = 0; index < parts.length; index += 4) {
    const [text, name, noun, plural] = parts.slice(index, index + 4);
    if (text) said.push({ text, node: -1 });
    if (name === undefined) continue;
    said.push(...factFragments(name, facts[name], label));
    if (noun) said.push({ text: ` ${facts[name] === 1 ? noun : (plural ?? `${noun}s`)}`, node: -1 });
  }
  return said;
}
