() => {
  const root = document.querySelector(".explorer-view");
  const rect = (element) => { const { left, top, right, bottom } = element.getBoundingClientRect(); return [left, top, right, bottom]; };
  const area = ([left, top, right, bottom]) => Math.max(0, right - left) * Math.max(0, bottom - top);
  const stage = rect(root.querySelector(".ex-stage"));
  const covers = [...root.querySelectorAll(".ex-beside")].map(rect).map(([a, b, c, d]) => [Math.max(a, stage[0]), Math.max(b, stage[1]), Math.min(c, stage[2]), Math.min(d, stage[3])]);
  const free = area(stage) - covers.reduce((sum, cover) => sum + area(cover), 0);
  const inside = ([left, top, right, bottom]) => left >= stage[0] - 1 && top >= stage[1] - 1 && right <= stage[2] + 1 && bottom <= stage[3] + 1;
  const seen = (selector) => [...root.querySelectorAll(selector)].filter((element) => element.checkVisibility());
  const drawn = [...seen(".ex-graph .ex-node"), ...seen(".ex-graph .ex-closed")].map((element) => [element, rect(element.querySelector(".ex-shape") ?? element)]);
  const { scale } = root.explorer?.camera ?? { scale: new DOMMatrix(getComputedStyle(root.querySelector(".ex-graph")).transform).a };
  const names = seen(".ex-graph .ex-name").filter((name) => name.textContent);
  const size = (text) => parseFloat(getComputedStyle(text).fontSize) * scale;
  const overflow = drawn.filter(([element, box]) => [...element.querySelectorAll(".ex-name, .ex-second")].some((text) => text.textContent && text.checkVisibility() && rect(text)[2] - rect(text)[0] > box[2] - box[0] + 1)).length;
  const paths = seen(".ex-graph path.ex-edge").filter((path) => path.getAttribute("d"));
  const lines = paths.map((path) => {
    const matrix = path.getScreenCTM();
    // The curve without its arrow head or cross, each of which begins with another M.
    const curve = path.cloneNode();
    curve.setAttribute("d", `M${path.getAttribute("d").split("M")[1]}`);
    const length = curve.getTotalLength();
    const count = Math.max(2, Math.min(80, Math.ceil(length / 12)));
    const points = Array.from({ length: count + 1 }, (_, index) => curve.getPointAtLength((length * index) / count).matrixTransform(matrix)).map(({ x, y }) => [x, y]);
    return { points, length };
  });
  const side = (p, q, r) => (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
  const cross = (a, b, c, d) => side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;
  // Edges that share an end run together near it, which is a bundle rather than a crossing.
  const distance = (p, q) => Math.hypot(p[0] - q[0], p[1] - q[1]);
  const shared = (one, other) => [[0, 0], [-1, -1], [0, -1], [-1, 0]].map(([i, j]) => [one.points.at(i), other.points.at(j)]).filter(([p, q]) => distance(p, q) < 40).map(([p]) => p);
  let crossings = 0;
  for (let i = 0; i < lines.length && lines.length < 900; i++)
    for (let j = i + 1; j < lines.length; j++) {
      const ends = shared(lines[i], lines[j]);
      for (let a = 0, found = 0; a + 1 < lines[i].points.length && found < 3; a++)
        for (let b = 0; b + 1 < lines[j].points.length && found < 3; b++)
          if (cross(lines[i].points[a], lines[i].points[a + 1], lines[j].points[b], lines[j].points[b + 1]) && ends.every((end) => distance(end, lines[i].points[a]) > 60)) { found++; crossings++; }
    }
  const far = ([x, y], [left, top, right, bottom]) => Math.hypot(x - Math.min(Math.max(x, left), right), y - Math.min(Math.max(y, top), bottom)) > 3;
  const over = lines.reduce((sum, { points }) => sum + drawn.filter(([, box]) => far(points[0], box) && far(points.at(-1), box) && points.some(([x, y]) => x > box[0] + 3 && x < box[2] - 3 && y > box[1] + 3 && y < box[3] - 3)).length, 0);
  const turn = ({ points }) => points.slice(2).reduce((sum, point, index) => {
    const [a, b] = [points[index], points[index + 1]];
    const [u, v] = [[b[0] - a[0], b[1] - a[1]], [point[0] - b[0], point[1] - b[1]]];
    return sum + Math.abs(Math.atan2(u[0] * v[1] - u[1] * v[0], u[0] * v[0] + u[1] * v[1]));
  }, 0);
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0);
  return {
    canvas: (100 * free) / (innerWidth * innerHeight),
    items: drawn.length,
    inSight: drawn.filter(([, box]) => inside(box)).length,
    whole: Number(drawn.every(([, box]) => inside(box)) && !root.querySelector(".ex-minimap:not(.ex-unseen)")),
    name: names.length ? Math.min(...names.map(size)) : 0,
    crossings,
    over,
    length: mean(lines.map(({ length }) => length)),
    turning: mean(lines.map(turn)) * 57.3,
    overflow,
  };
}
