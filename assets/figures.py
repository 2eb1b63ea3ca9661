"""Draw the figures of the notebooks, each from a real recording or layer: ``python assets/figures.py``.

They are SVG images with their own background, in the light or dark colours of the reader's system. They are legible in
JupyterLab, on GitHub and on the pages of a site.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import explorer as ex  # noqa: E402
from explorer import layers  # noqa: E402
from explorer.layers import InConnect, InternalConnect, OutConnect, Sublayer, Topology  # noqa: E402
from explorer.record.reasons import bytes_text  # noqa: E402
from explorer.view.base.markup import Markup, element  # noqa: E402

FIGURES = HERE.parent / "notebooks" / "figures"
STYLE = """
.ground{fill:#fff;stroke:#d0d7de}.box{fill:#eef4fb;stroke:#57738f}.cache{fill:#f3ecfb;stroke:#8250df}
.block{fill:#8250df}.faint{fill:#8250df;opacity:.18}.line{stroke:#57606a;fill:none}.back{stroke:#bc4c00;fill:none}
.tip{fill:#57606a}.backtip{fill:#bc4c00}text{font:13px system-ui,sans-serif;fill:#1f2328}.small{font-size:11px}
.value{fill:#0550ae}.slope{fill:#bc4c00}.middle{text-anchor:middle}.bold{font-weight:600}.port{fill:#57738f}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117;stroke:#3d444d}.box{fill:#15202e;stroke:#7d99b5}
.cache{fill:#1d1530;stroke:#a371f7}.block{fill:#a371f7}.faint{fill:#a371f7;opacity:.25}.line{stroke:#9198a1}
.back{stroke:#f0883e}.tip{fill:#9198a1}.backtip{fill:#f0883e}text{fill:#e6edf3}.value{fill:#79c0ff}
.slope{fill:#f0883e}.port{fill:#7d99b5}}
"""


class Leaky(layers.Layer):
    """Leaky rectifier, the layer of notebook 04: x if positive, else a fraction of x."""

    slope: float = 0.1

    def forward(self, input: ex.Expr) -> ex.Expr:
        """Record one operation."""
        return ex.leaky_relu(input, self.slope)


class Residual(layers.Composite):
    """Composite of notebook 04: input + leaky(input @ weight + bias)."""

    topology = Topology(
        InConnect("input", "linear", "input"),
        InternalConnect("linear", "output", "bend", "input"),
        InConnect("input", "sum", "left"),
        InternalConnect("bend", "output", "sum", "right"),
        OutConnect("sum", "output", "output"),
        Sublayer("linear", layers.Linear),
        Sublayer("bend", Leaky),
        Sublayer("sum", layers.Add),
    )

    def arguments(self) -> dict[str, dict[str, int]]:
        """Return the arguments of the parts."""
        return {"linear": {"in_features": 4, "out_features": 4}}


def main() -> None:
    """Write the figures that have changed."""
    FIGURES.mkdir(exist_ok=True)
    for name, text in figures().items():
        path = FIGURES / f"{name}.svg"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def figures() -> dict[str, str]:
    """Return a dict of names and SVG sources."""
    return {"chain": chain(), "arena": arena(), "ports": ports(), "gradient": gradient()}


def chain() -> str:
    """Draw blocks in a fused chain, below the same operations as separate loops."""
    x = ex.tensor(np.linspace(-2, 2, 1_000_000).astype(np.float32), name="x")
    value = ex.tanh(x + 1) * 2
    separate, fused = (_recording(value, without=without) for without in (["fuse"], []))
    (kernel,) = fused.schedule.kernels
    names = [fused.nodes.label[node] for node in kernel.nodes]
    written = [sum(plan.nodes.bytes[k.nodes[-1]] for k in plan.schedule.kernels) for plan in (separate, fused)]
    temporaries = [plan.nodes.bytes[k.nodes[-1]] for plan in (separate,) for k in plan.schedule.kernels][:-1]
    parts = [_text(24, 34, f"separate: {len(names)} loops, {bytes_text(written[0])} written", "bold")]
    parts += [_array(24, 52, "x"), _text(52, 120, "x", "small middle")]
    for place, name in enumerate(names):
        left = 130 + place * 180
        is_last = place == len(names) - 1
        parts += [_arrow(left - (20 if place else 46), 78, left - 4, 78), _box(left, 60, 76, 36, name)]
        parts += [_arrow(left + 80, 78, left + 98, 78), _array(left + 102, 52, "t" if not is_last else "y")]
        label = "the result" if is_last else f"{bytes_text(temporaries[place])} written, read"
        parts.append(_text(left + 130, 120, label, "small middle"))
    parts.append(_text(24, 168, f"one kernel: one loop over blocks, {bytes_text(written[1])} written", "bold"))
    parts += [_array(24, 186, "x", highlighted=1), _arrow(84, 212, 146, 212)]
    parts.append(element("rect", x=150, y=180, width=420, height=64, rx=8, class_="cache"))
    for place, name in enumerate(names):
        left = 166 + place * 136
        parts.append(_box(left, 194, 76, 36, name))
        if place < len(names) - 1:
            parts += [_arrow(left + 80, 212, left + 132, 212)]
            parts.append(element("rect", x=left + 95, y=204, width=16, height=16, rx=2, class_="block"))
    parts += [_arrow(574, 212, 608, 212), _array(612, 186, "y", highlighted=1)]
    parts += [_text(360, 262, "one block at a time, which stays in the cache between operations", "small middle")]
    parts += [_text(52, 262, "x, in blocks", "small middle"), _text(640, 262, "the result", "small middle")]
    return _figure(740, 280, parts, f"{' → '.join(names)}: as separate loops, and as one kernel over blocks")


def arena() -> str:
    """Draw the live ranges of three values and their two positions in the arena."""
    matrix = ex.tensor(np.eye(64, dtype=np.float32), name="M")
    product = matrix
    for _ in range(4):
        product = product @ matrix
    schedule = _recording(product).schedule
    count = len(schedule.kernels)
    last = {}
    for number, kernel in enumerate(schedule.kernels):
        for freed in kernel.frees:
            last[freed] = number
    left, step = 150, 120
    parts = [_text(left + step * (n + 0.5), 34, f"kernel {n + 1}", "small middle") for n in range(count)]
    parts.append(_text(24, 34, "live ranges", "bold"))
    for row, kernel in enumerate(schedule.kernels[:-1]):
        y, last_reader = 48 + row * 30, last[kernel.nodes[-1]]
        width = step * (last_reader - row + 1) - 12
        parts.append(_text(24, y + 16, f"{'abc'[row]}, {bytes_text(kernel.bytes)}", "small"))
        parts.append(element("rect", x=left + step * row + 6, y=y, width=width, height=22, rx=5, class_="cache"))
        parts.append(_text(left + step * row + 18, y + 16, "written", "small"))
        parts.append(_text(left + step * (last_reader + 1) - 48, y + 16, "read", "small"))
    parts.append(_text(24, 172, "the arena", "bold"))
    for place, size in enumerate(schedule.buffers):
        y = 186 + place * 42
        parts.append(_text(24, y + 21, f"buffer {place}, {bytes_text(size)}", "small"))
        parts.append(element("rect", x=left, y=y, width=step * count, height=34, rx=5, class_="box"))
        for row, kernel in enumerate(schedule.kernels[:-1]):
            if kernel.buffer == place:
                width = step * (last[kernel.nodes[-1]] - row + 1) - 12
                x = left + step * row + 6
                parts.append(element("rect", x=x, y=y + 5, width=width, height=24, rx=4, class_="faint"))
                parts.append(_text(x + width / 2, y + 21, "abc"[row], "middle bold"))
    end = "The last result is returned, and is outside the arena."
    parts.append(_text(left, 290, end, "small"))
    return _figure(left + step * count + 24, 306, parts, "Live ranges of a, b and c, and their two buffers")


def ports() -> str:
    """Draw a composite layer: its parts, their ports, and the clauses that connect them."""
    block = Residual("block")
    clauses = {type(clause).__name__: [] for clause in Residual.topology.clauses}
    for clause in Residual.topology.clauses:
        clauses[type(clause).__name__].append(clause)
    places = {name: (190 + number * 190, 126) for number, name in enumerate(block.wiring.order)}
    width, height = 110, 64
    parts = [element("rect", x=90, y=40, width=640, height=186, rx=10, class_="box")]
    parts.append(_text(104, 62, "block: Residual, a Composite", "bold"))
    inputs = {(name, port): (x, y + 24 + 26 * row) for name, (x, y) in places.items()
              for row, port in enumerate(block.sublayers[name].inputs)}  # fmt: skip
    for name, (x, y) in places.items():
        parts.append(element("rect", x=x, y=y, width=width, height=height + 12, rx=6, class_="cache"))
        parts.append(_text(x + width / 2 + 8, y - 8, f"{name}: {type(block.sublayers[name]).__name__}", "middle small"))
        parts.append(_port(x + width, y + 38))
        parts.append(_text(x + width - 6, y + 42, "output", "small", anchor="end"))
    for (_, port), (x, y) in inputs.items():
        parts += [_port(x, y), _text(x + 8, y + 4, port, "small")]
    source, target = (90, 150), (730, 164)
    parts += [_port(*source), _text(82, 154, "input", "small", anchor="end")]
    parts += [_port(*target), _text(738, 168, "output", "small")]
    for clause in clauses["InConnect"]:
        x, y = inputs[clause.to, clause.to_port]
        # a wire around the parts in between is separate from their wires
        path = f"M{source[0]} {source[1]}H{x}" if x < 250 else f"M{source[0]} {source[1]}h40v-52H{x - 26}V{y}H{x}"
        parts.append(element("path", d=path, class_="line"))
    for clause in clauses["InternalConnect"]:
        x, y = places[clause.source]
        end = inputs[clause.to, clause.to_port]
        d = f"M{x + width} {y + 38}H{(x + width + end[0]) / 2}V{end[1]}H{end[0]}"
        parts.append(element("path", d=d, class_="line"))
    for clause in clauses["OutConnect"]:
        x, y = places[clause.source]
        parts.append(element("path", d=f"M{x + width} {y + 38}H{target[0]}", class_="line"))
    legend = "InConnect: composite to part · InternalConnect: part to part · OutConnect: part to composite"
    parts.append(_text(410, 254, legend, "small middle"))
    return _figure(820, 270, parts, "The parts of a residual block, their ports, and the clauses that connect them")


def gradient() -> str:
    """Draw three nodes with their values and gradients."""
    at = ex.tensor(0.5, name="x")
    u = 3 * at
    h = ex.tanh(u)
    y = ex.square(h)
    values = [float(ex.evaluate(node)) for node in (at, u, h, y)]
    slopes = [float(ex.evaluate(ex.grad(y, node))) for node in (at, u, h)] + [1.0]
    derivatives = [float(ex.evaluate(ex.grad(after, before))) for before, after in ((at, u), (u, h), (h, y))]
    factors = [f"× {text}{d:.4g}" for text, d in zip(("", "(1 − h²) = ", "2h = "), derivatives, strict=True)]
    parts = []
    names = ("x", "u = 3x", "h = tanh u", "y = h²")
    for number, (name, value, slope) in enumerate(zip(names, values, slopes, strict=True)):
        left = 24 + number * 200
        parts.append(element("rect", x=left, y=60, width=116, height=84, rx=8, class_="box"))
        parts.append(_text(left + 58, 82, name, "middle bold"))
        parts.append(_text(left + 58, 106, f"value {value:.4f}", "middle small value"))
        parts.append(_text(left + 58, 128, f"gradient {slope:.4f}", "middle small slope"))
        if number < 3:
            parts.append(_arrow(left + 120, 84, left + 196, 84))
            parts.append(_arrow(left + 196, 124, left + 120, 124, "back"))
            parts.append(_text(left + 158, 164, factors[number], "middle small slope"))
    parts.append(_text(24, 34, "forward: each node from the previous one", "value"))
    parts.append(_text(24, 192, "backward: start with dy/dy = 1, then multiply by each node's derivative", "slope"))
    return _figure(764, 208, parts, "Forward values and backward gradients of three nodes")


def _recording(*values: ex.Expr, without: Iterable[str] = ()) -> ex.Recording:
    plan = ex.EvalPlan(without=list(without))
    for value in values:
        plan.register(value)
    return plan.prepare().recording


def _text(x: float, y: float, label: str, kind: str = "", anchor: str | None = None) -> Markup:
    return element("text", label, x=f"{x:g}", y=f"{y:g}", class_=kind or None, text_anchor=anchor)


def _box(x: float, y: float, width: float, height: float, name: str) -> Markup:
    rect = element("rect", x=x, y=y, width=width, height=height, rx=6, class_="box")
    return Markup(rect + _text(x + width / 2, y + height / 2 + 5, name, "middle"))


def _array(x: float, y: float, name: str, highlighted: int = -1) -> Markup:
    """Draw an array as four blocks, one of them highlighted."""
    blocks = [element("rect", x=x + 14 * n, y=y, width=13, height=52, rx=2,
                      class_="block" if n == highlighted else "faint") for n in range(4)]  # fmt: skip
    return Markup("".join(blocks))


def _port(x: float, y: float) -> Markup:
    return element("circle", cx=x, cy=y, r=4, class_="port")


def _arrow(x: float, y: float, to: float, end: float, kind: str = "line") -> Markup:
    side = 6 if to > x else -6
    line = element("path", d=f"M{x:g} {y:g}H{to - side:g}", class_=kind)
    tip = element("path", d=f"M{to:g} {end:g}l{-side} -4v8z", class_="tip" if kind == "line" else "backtip")
    return Markup(line + tip)


def _figure(width: float, height: float, parts: Iterable[Markup], title: str) -> str:
    background = element("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8, class_="ground")
    inside = [element("title", title), element("style", Markup(STYLE)), background, *parts]
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    return element("svg", *inside, xmlns="http://www.w3.org/2000/svg", role="img", **size) + "\n"


if __name__ == "__main__":
    main()
