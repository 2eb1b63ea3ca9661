"""Places every box alone, with its child boxes closed: each layout is small, and equal boxes are laid out once."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.view.engine import Graph, LayoutEngine, Placed, dot
from explorer.view.fold import levels
from explorer.view.layered import Layered
from explorer.view.model import Model

TITLE, PADDING = 26, 14
"""px above and around the items of an open box"""
_BUDGET, _DENSE = 5000, 2000
"""items, and levels that edges span, that dot takes in one recording and in one box: 0.2 s in the worst box measured;
beyond, minutes. The rule counts instead of measuring time, so that every machine draws the same picture."""


@dataclass(frozen=True, slots=True)
class BoxLayout:
    """One open box with all its child boxes closed, in px, in its own frame."""

    size: tuple[int, int]
    ports: tuple[int, int]
    places: list[list[int]]
    """x, y, width, height of each item"""
    ranks: list[int]
    routes: list[list[int]]
    """control points of each of the box's edges, in the order of ``Model.edges``"""


def lay_out(model: Model, engine: LayoutEngine | None = None) -> list[BoxLayout]:
    """Lay out every box of a model; ``engine`` places the boxes that matter, dot unless told otherwise."""
    first, plain = engine or dot(), Layered()
    known: dict[Graph, BoxLayout] = {}
    found: dict[int, BoxLayout] = {}
    spent = 0
    for box in _by_importance(model):
        graph = _graph(model, box)
        if graph not in known:
            cost = _cost(graph)
            path = model.tree.boxes[box].kind == "chain" and len(graph.edges) <= len(graph.sizes) + 1
            simple = path or cost > _DENSE or spent + cost > _BUDGET
            spent += 0 if simple else cost
            known[graph] = _frame(graph, (plain if simple else first).place(graph), box in model.tree.bodies)
        found[box] = known[graph]
    return [found[box] for box in range(len(model.tree.boxes))]


def _by_importance(model: Model) -> list[int]:
    """Order the boxes: open ones first, then from the outside in."""
    order = model.tree.inside_out()[::-1]
    depth: dict[int, int] = {-1: -1}
    for box in order:
        depth[box] = depth[model.tree.boxes[box].parent] + 1
    return sorted(order, key=lambda box: (not model.tree.boxes[box].open, depth[box], box))


def _cost(graph: Graph) -> int:
    """Count the items, and an item for each level that an edge passes: dot orders them all."""
    level = levels(len(graph.sizes), graph.edges)
    last = max(level, default=0) + 1
    ends = ((level[tail] if tail >= 0 else -1, level[head] if head >= 0 else last) for tail, head in graph.edges)
    return len(level) + sum(max(1, end - start) for start, end in ends)


def _graph(model: Model, box: int) -> Graph:
    items = model.tree.boxes[box].items
    return Graph(
        tuple(model.extents[index] if kind == "slot" else model.box_sizes[index] for kind, index in items),
        frozenset(item for item, (kind, _) in enumerate(items) if kind == "box"),
        tuple(model.edges[box]),
        tuple((title, tuple(members)) for title, members in model.groups[box]),
    )


def _frame(graph: Graph, placed: Placed, outermost: bool) -> BoxLayout:
    """Put the engine's answer into the frame of the open box: padding around it, the title strip above."""
    dx, dy = PADDING, PADDING if outermost else PADDING + TITLE
    size = (placed.size[0] + 2 * PADDING, placed.size[1] + PADDING + dy)
    places = [
        [x - wide // 2 + dx, y - high // 2 + dy, wide, high]
        for (x, y), (wide, high) in zip(placed.centres, graph.sizes, strict=True)
    ]
    routes = []
    for (tail, head), route in zip(graph.edges, placed.routes, strict=True):
        points = [value + (dy if index % 2 else dx) for index, value in enumerate(route)]
        if tail < 0:
            points[1] = 0
        if head < 0:
            points[-1] = size[1]
        routes.append(points)
    rows = {y: rank for rank, y in enumerate(sorted({y for _, y in placed.centres}))}
    ports = (placed.ports[0] + dx, placed.ports[1] + dx)
    return BoxLayout(size, ports, places, [rows[y] for _, y in placed.centres], routes)
