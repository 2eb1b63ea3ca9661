// Formatting of numbers with units, as in record/reasons.py, because sums over boxes are computed here at each step.
// A test checks that both return the same strings (tests/browser/test_number_format.py).

/** Format a number with three significant digits, as Python's ".3g" does. @param {number} value */
export function general(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const rounded = threeDigits(value);
  const [digits, power] = rounded.split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 3) return `${trimmed(digits)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  return trimmed(Number(rounded).toFixed(Math.max(0, 2 - exponent)));
}

/** Convert a real or complex number from NumPy's or Python's notation to a readable one: "0.", "1.5e-07" → "0", "1.5·10⁻⁷". @param {string} text */
export function written(text) {
  return text.replace(/([\d.]+)(?:e([+-]\d+))?/g, (_, digits, power) => trimmed(digits.replace(/\.$/, "")) + (power ? `·10${raised(Number(power))}` : "")).replaceAll("-", "−");
}

const raised = (power) => String(power).replace(/./g, (sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)]));

/** Format as "1.25e+3", rounding half to even, as in Python. */
function threeDigits(value) {
  const middle = /^(-?\d\.\d[02468])50*e(.*)$/.exec(value.toExponential(40));
  return middle ? `${middle[1]}e${middle[2]}` : value.toExponential(2);
}

function trimmed(digits) {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}

/** Format without decimals, rounding half to even. */
function whole(value) {
  return Math.abs(value % 1) === 0.5 ? String(2 * Math.round(value / 2)) : value.toFixed(0);
}

/** From here on three digits would give 1e+03, so the next unit is used. */
const ROUNDS_UP = 999.5;

/** Format as "512 B", "6 KB", "1.5 MB"; 1 KB is 1024 bytes. @param {number} count */
export function bytesText(count) {
  if (Math.abs(count) < 1024) return `${whole(count)} B`;
  for (const unit of ["KB", "MB", "GB"]) {
    count /= 1024;
    if (Math.abs(count) < ROUNDS_UP) return `${general(count)} ${unit}`;
  }
  return `${general(count / 1024)} TB`;
}

/** Format as "950", "25 K", "1.82 G". @param {number} count */
export function countText(count) {
  if (Math.abs(count) < ROUNDS_UP) return whole(count);
  for (const unit of ["K", "M", "G"]) {
    count /= 1000;
    if (Math.abs(count) < ROUNDS_UP) return `${general(count)} ${unit}`;
  }
  return `${general(count / 1000)} T`;
}

/** Format as "1 flop", "950 flops", "25 K parameters". @param {number} count @param {string} noun */
export function shortCounted(count, noun) {
  return `${countText(count)} ${count === 1 ? noun : `${noun}s`}`;
}

/** Format as "3.4 µs", "12.1 ms", "2.5 s". @param {number} micros */
export function microsText(micros) {
  if (micros < ROUNDS_UP) return `${general(micros)} µs`;
  return micros < 1000 * ROUNDS_UP ? `${general(micros / 1000)} ms` : `${general(micros / 1e6)} s`;
}

/** Format a time that is not part of every run, "3.4 µs once". @param {number} micros */
export function onceText(micros) {
  return `${microsText(micros)} once`;
}

/** Format an integer with commas. @param {number} value */
export function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Format a count with its noun. @param {number} count @param {string} noun */
export function counted(count, noun, plural = `${noun}s`) {
  return `${grouped(count)} ${count === 1 ? noun : plural}`;
}
