"""Interface of layout engines, which place sized items, and the plain engine, which takes linear time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from explorer.view.tree.topological import ranks

GAP, RANK_GAP = 36, 42
"""px between items of a rank (space for a node's number) and between ranks (space for a group's title)"""
COMPACT = 28
"""the same px in a graph without numbers and groups; ranks are further apart if names are written along edges"""
_SWEEPS = 4


Side: TypeAlias = tuple[tuple[int, ...], ...]
"""groups of ports from left to right; the engine chooses the order of the ports in a group"""
Order: TypeAlias = tuple[Side, Side]
"""ports at the top, and at the bottom"""


@dataclass(frozen=True, slots=True)
class LayoutGraph:
    """Input of a layout engine; it contains no names."""

    sizes: tuple[tuple[int, int], ...]
    """width and height of each item in px"""
    boxes: frozenset[int]
    """items that are boxes, whose edges meet at the middle of their top and bottom"""
    edges: tuple[tuple[int, int], ...]
    """(from item, to item); −1 − p is port p of the border, at the top as a start and at the bottom as an end"""
    groups: tuple[tuple[int, ...], ...] = ()
    """items kept together, below a title"""
    order: Order = (((0,),), ((0,),))
    """ports at the top and at the bottom"""
    growing: frozenset[int] = frozenset()
    """boxes that become much larger when they are opened; routes next to them are prepared for this"""
    title: int = 0
    """width in px of the title above everything"""
    gaps: tuple[int, int] = (GAP, RANK_GAP)
    """px between items of a rank, and between ranks"""


@dataclass(frozen=True, slots=True)
class Placed:
    """Output of a layout engine, in px, x to the right, y down."""

    size: tuple[int, int]
    centres: list[tuple[int, int]]
    routes: list[list[int]]
    """x0, y0, x1, y1, … cubic Bézier control points of each edge, 3n + 1 of them; empty for a plain curve"""
    ports: tuple[list[int], list[int]]
    """x of each port at the top, at which edges enter, and at the bottom, at which they leave; at least one per side"""

    @property
    def has_rows(self) -> bool:
        """Whether items are next to each other, so that the mirror image differs in their order."""
        return len({y for _, y in self.centres}) < len(self.centres)

    def mirrored(self) -> Placed:
        """Return the mirror image, in which left and right are exchanged."""
        wide, (top, bottom) = self.size[0], self.ports
        return Placed(
            self.size,
            [(wide - x, y) for x, y in self.centres],
            [[value if index % 2 else wide - value for index, value in enumerate(route)] for route in self.routes],
            ([wide - x for x in top], [wide - x for x in bottom]),
        )


class LayoutEngine(Protocol):
    """Engine that places the items of one graph."""

    def place(self, graph: LayoutGraph) -> Placed:
        """Return the coordinates of all items and edges."""
        ...


class Layered:
    """Layered layout, with ranks by longest path, each ordered by the mean position of its neighbours."""

    def place(self, graph: LayoutGraph) -> Placed:
        """Lay out a graph from top to bottom."""
        rank = ranks(len(graph.sizes), graph.edges)
        rows: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
        for item, row in enumerate(rank):
            rows[row].append(item)
        _order(rows, graph)
        return _coordinates(rows, graph)


def _order(rows: list[list[int]], graph: LayoutGraph) -> None:
    """Sweep down and up, sorting each row by the mean position of operands, then of readers."""
    above: list[list[int]] = [[] for _ in graph.sizes]
    below: list[list[int]] = [[] for _ in graph.sizes]
    for tail, head in graph.edges:
        if tail >= 0 and head >= 0:
            above[head].append(tail)
            below[tail].append(head)
    position = [0.0] * len(graph.sizes)
    for row in rows:
        for index, item in enumerate(row):
            position[item] = (index + 0.5) / len(row)
    # A chain, the most common graph here, has nothing to sort.
    if max(map(len, rows), default=0) == 1:
        return
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            # A single item stays in the middle.
            if len(row) == 1:
                continue
            mean = {}
            for item in row:
                around = neighbours[item]
                mean[item] = sum([position[other] for other in around]) / len(around) if around else position[item]
            row.sort(key=mean.__getitem__)
            for index, item in enumerate(row):
                # A fraction of the row rather than an index, since neighbours are in rows of other lengths.
                position[item] = (index + 0.5) / len(row)


def _coordinates(rows: list[list[int]], graph: LayoutGraph) -> Placed:
    gap, rank_gap = graph.gaps
    widths = [sum(graph.sizes[item][0] for item in row) + gap * (len(row) - 1) for row in rows]
    wide = max(widths, default=0)
    centres = [(0, 0)] * len(graph.sizes)
    top = 0
    for row, width in zip(rows, widths, strict=True):
        high = max(graph.sizes[item][1] for item in row)
        left = (wide - width) // 2
        for item in row:
            centres[item] = (left + graph.sizes[item][0] // 2, top + high // 2)
            left += graph.sizes[item][0] + gap
        top += high + rank_gap
    size = (wide, max(0, top - rank_gap))
    tops = _ports(
        [(-1 - tail, centres[head][0]) for tail, head in graph.edges if tail < 0 <= head], graph.order[0], wide
    )
    bottoms = _ports(
        [(-1 - head, centres[tail][0]) for tail, head in graph.edges if head < 0 <= tail], graph.order[1], wide
    )
    return Placed(size, centres, [[]] * len(graph.edges), (tops, bottoms))


def _ports(ends: list[tuple[int, int]], side: Side, wide: int) -> list[int]:
    """Return the x of each port: the middle for a single port, else above its items; ``ends`` are (port, x)."""
    order = [port for group in side for port in group]
    if len(order) == 1:
        return [wide // 2]
    targets = [[x for port, x in ends if port == number] for number in range(len(order))]
    # The outer graph has set the order of the ports, so they are placed in this order, even if their items are in
    # another order.
    xs = sorted(sum(positions) // len(positions) for positions in targets)
    return [xs[order.index(port)] for port in range(len(order))]


def cost(graph: LayoutGraph) -> int:
    """Return the number of items plus the ranks that edges pass, since dot orders all of these."""
    rank = ranks(len(graph.sizes), graph.edges)
    last = max(rank, default=0) + 1
    ends = ((rank[tail] if tail >= 0 else -1, rank[head] if head >= 0 else last) for tail, head in graph.edges)
    return len(rank) + sum(max(1, abs(end - start)) for start, end in ends)


def trunk(count: int, edges: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the edges of a graph's trunks, at most one into and one out of each item.

    ``edges`` are the edges of a LayoutGraph, with negative ends for the border's ports. An edge belongs to a trunk if
    its producer is deeper than the other producers of its reader, and its reader is followed by more levels than the
    other readers of its producer. So an edge from a reader's only producer to the producer's only reader is in a trunk,
    and operands of equal depth are placed symmetrically around their reader.
    """
    down = ranks(count, edges)
    up = ranks(count, [(head, tail) for tail, head in edges])
    producer = _only_deepest([(head, tail) for tail, head in edges], down)
    reader = _only_deepest(edges, up)
    return {(tail, head) for tail, head in edges if producer.get(head) == tail and reader.get(tail) == head}


def _only_deepest(edges: Iterable[tuple[int, int]], depths: Sequence[int]) -> dict[int, int | None]:
    """Map the first end of each edge to its deepest other end, or to None if several are equally deep."""
    deepest: dict[int, int | None] = {}
    depth_of: dict[int, int] = {}
    for end, other in edges:
        depth = depths[other] if other >= 0 else -1
        known = depth_of.get(end, -2)
        if depth > known:
            depth_of[end], deepest[end] = depth, other
        elif depth == known:
            deepest[end] = None
    return deepest
