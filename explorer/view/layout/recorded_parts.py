"""Parts of boxes that the program recorded, for the layout of a graph that no pass has changed yet.

The layout for all steps keeps space for everything that passes add, and has edges that exist only later, so it is
larger than the recorded graph needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from explorer.view.layout.layout_engine import LayoutGraph, Order
from explorer.view.layout.positions import BoxLayout
from explorer.view.model.picture_model import Model
from explorer.view.tree.box_tree import Paths

Edge: TypeAlias = tuple[int, int, int, int]
"""(from item, to item, start port, end port), as in ``Ports.edges``"""


def ends(edge: Edge) -> tuple[int, int]:
    """Return the ends of an edge in a LayoutGraph, which has ports only at the border."""
    tail, head, out, into = edge
    return -1 - out if tail < 0 else tail, -1 - into if head < 0 else head


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """Recorded items and edges of one box."""

    items: dict[int, int]
    """item of the box → item of the part"""
    edges: frozenset[Edge]
    ports: tuple[dict[int, int], dict[int, int]]
    """port of the box at the top, and at the bottom, that a recorded edge uses → port of the part"""

    def graph(self, whole: LayoutGraph) -> LayoutGraph:
        """Return the part's graph, given the box's graph."""
        known = {ends(edge) for edge in self.edges}
        return replace(
            whole,
            sizes=tuple(whole.sizes[item] for item in self.items),
            boxes=frozenset(self.items[item] for item in whole.boxes if item in self.items),
            edges=tuple(self._edge(edge) for edge in whole.edges if edge in known),
            groups=(),
            growing=frozenset(self.items[item] for item in whole.growing if item in self.items),
        )

    def order(self, whole: Order) -> Order:
        """Return the order of the part's ports, given the order of the box's ports."""
        top, bottom = (
            tuple(group for own in side if (group := tuple(ports[port] for port in own if port in ports))) or ((0,),)
            for side, ports in zip(whole, self.ports, strict=True)
        )
        return top, bottom

    def expanded(self, layout: BoxLayout, graph: LayoutGraph, model: Model, box: int) -> BoxLayout:
        """Return the layout of a box with all its items and ports, given the layout of its part.

        Items outside the part have no size, and edges outside the part have no route.
        """
        wide, high = layout.size
        items, counts = range(len(model.tree.boxes[box].items)), model.ports.counts[box]
        routes = dict(zip(graph.edges, layout.routes, strict=True))
        top, bottom = (
            tuple(xs[ports[port]] if port in ports else wide // 2 for port in range(number))
            for xs, ports, number in zip(layout.ports, self.ports, counts, strict=True)
        )
        return replace(
            layout,
            ports=(top, bottom),
            rects=[
                layout.rects[self.items[item]] if item in self.items else [wide // 2, high // 2, 0, 0] for item in items
            ],
            ranks=[layout.ranks[self.items[item]] if item in self.items else 0 for item in items],
            routes=[routes[self._edge(ends(edge))] if edge in self.edges else [] for edge in model.ports.edges[box]],
        )

    def _edge(self, edge: tuple[int, int]) -> tuple[int, int]:
        tail, head = edge
        top, bottom = self.ports
        return (
            -1 - top[-1 - tail] if tail < 0 else self.items[tail],
            -1 - bottom[-1 - head] if head < 0 else self.items[head],
        )


class RecordedParts:
    """Recorded parts of all boxes of a model."""

    def __init__(self, model: Model) -> None:
        self._parts = _parts(model)

    def of(self, box: int) -> RecordedPart | None:
        """Return the recorded part of a box, or None if nothing in the box was recorded."""
        return self._parts[box]


def _parts(model: Model) -> list[RecordedPart | None]:
    tree, slots = model.tree, model.slots
    born = model.recording.nodes.born
    has_recorded = [False] * len(tree.boxes)
    for box in tree.postorder():
        has_recorded[box] = any(
            has_recorded[number] if table == "box" else born[slots.nodes[number][0]] < 0
            for table, number in tree.boxes[box].items
        )
    edges: list[dict[Edge, None]] = [{} for _ in tree.boxes]
    paths = Paths(tree, model.ports.number)
    for producer, consumer in slots.recorded:
        for box, *edge in paths.segments(producer, consumer):
            tail, head, out, into = edge
            edges[box][tail, head, out, into] = None
    return [
        _part(
            [
                item
                for item, (table, number) in enumerate(tree.boxes[box].items)
                if (has_recorded[number] if table == "box" else born[slots.nodes[number][0]] < 0)
            ],
            edges[box],
        )
        if has_recorded[box]
        else None
        for box in range(len(tree.boxes))
    ]


def _part(items: list[int], edges: dict[Edge, None]) -> RecordedPart:
    tops = sorted({out for tail, _, out, _ in edges if tail < 0})
    bottoms = sorted({into for _, head, _, into in edges if head < 0})
    return RecordedPart(
        {item: index for index, item in enumerate(items)},
        frozenset(edges),
        ({port: index for index, port in enumerate(tops)}, {port: index for index, port in enumerate(bottoms)}),
    )
