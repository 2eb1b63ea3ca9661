// Shapes of edges: a curve and its arrow head as one path.

/** Return the path of a segment, cached. @param {import("../scene/placement.js").Segment & {d?: string}} segment */
export function pathText(segment) {
  return (segment.d ??= curve(segment.points, segment.arrow));
}

/** Return the center of the ✗ of a segment: the middle or, for a segment over a small height, a point near its start, because the title of a kernel may be over its end. @param {import("../scene/placement.js").Segment} segment @returns {[number, number]} */
export function crossCenter({ points }) {
  const curves = (points.length - 2) / 6;
  if (Math.abs(points.at(-1) - points[1]) < SPACING.short) return curvePoint(points, 0, 1 / 5);
  const start = 6 * Math.floor((curves - 1) / 2);
  // For an even number of curves, the joint between the two middle ones.
  return curvePoint(points, start, curves % 2 ? 1 / 2 : 1);
}

/** Return the point at parameter `t` of the cubic Bézier curve whose first coordinate has the index `start`. @param {number[]} points @param {number} start @param {number} t @returns {[number, number]} */
function curvePoint(points, start, t) {
  const [x0, y0, x1, y1, x2, y2, x3, y3] = points.slice(start, start + 8);
  const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  return [a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3];
}

/** Return the path of a ✗ around a point. @param {number[]} center */
export function crossText([x, y]) {
  return `M${(x - 5).toFixed(1)} ${(y - 5).toFixed(1)}l10 10m0-10l-10 10`;
}

/** Return the bounding rectangle of a segment's control points, cached. @param {import("../scene/placement.js").Segment & {extent?: number[]}} segment */
export function extentOf(segment) {
  return (segment.extent ??= extent(segment.points));
}

function extent(points) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let index = 0; index < points.length; index += 2) {
    [left, right] = [Math.min(left, points[index]), Math.max(right, points[index])];
    [top, bottom] = [Math.min(top, points[index + 1]), Math.max(bottom, points[index + 1])];
  }
  return [left, top, right - left, bottom - top];
}

/** Number of sampled points of a curve for computing its distance. */
const SAMPLES = 12;

/** Return the key of the edge nearest to a point, "" if none is near. @param {Map<string, {segment: import("../scene/placement.js").Segment}>} edges @param {number} x @param {number} y @param {number} near */
export function nearestEdge(edges, x, y, near) {
  let [best, least] = ["", near];
  for (const [key, { segment }] of edges) {
    const [left, top, wide, high] = extentOf(segment);
    if (x < left - near || x > left + wide + near || y < top - near || y > top + high + near) continue;
    const distance = distanceTo(segment.points, x, y);
    if (distance <= least) [best, least] = [key, distance];
  }
  return best;
}

/** Return the approximate distance from a point to a path of curves, which is sampled as line segments. */
function distanceTo(points, x, y) {
  let least = Infinity;
  for (let first = 0; first + 7 < points.length; first += 6) {
    let [fromX, fromY] = points.slice(first, first + 2);
    for (let sample = 1; sample <= SAMPLES; sample++) {
      const [toX, toY] = curvePoint(points, first, sample / SAMPLES);
      const [dx, dy] = [toX - fromX, toY - fromY];
      const share = Math.max(0, Math.min(1, ((x - fromX) * dx + (y - fromY) * dy) / (dx * dx + dy * dy || 1)));
      least = Math.min(least, Math.hypot(x - fromX - share * dx, y - fromY - share * dy));
      [fromX, fromY] = [toX, toY];
    }
  }
  return least;
}

function curve(points, arrow) {
  const pairs = [];
  for (let index = 0; index < points.length; index += 2) pairs.push(`${points[index]} ${points[index + 1]}`);
  return `M${pairs[0]}C${pairs.slice(1).join(" ")}${arrow ? head(points) : ""}`;
}

/** Return an open arrow head as part of the path, so that no marker element with an id is needed. */
function head(points) {
  const [x, y] = points.slice(-2);
  let index = points.length - 4;
  while (index > 0 && Math.hypot(points[index] - x, points[index + 1] - y) < 1) index -= 2;
  const angle = Math.atan2(y - points[index + 1], x - points[index]);
  const wing = (turn) => `${(x - 7 * Math.cos(angle + turn)).toFixed(1)} ${(y - 7 * Math.sin(angle + turn)).toFixed(1)}`;
  return `M${wing(0.45)}L${x} ${y}L${wing(-0.45)}`;
}

/** Return two paths with the same number of points, so that one can be animated into the other. */
export function alike(from, to) {
  const long = Math.max(from.points.length, to.points.length);
  const fill = (points) => {
    const filled = [...points];
    while (filled.length < long) filled.push(...points.slice(-2));
    return filled;
  };
  return [curve(fill(from.points), to.arrow), curve(fill(to.points), to.arrow)];
}
