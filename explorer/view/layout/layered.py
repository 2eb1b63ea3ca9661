"""Plain layered layout in linear time, for graphs that take dot too long: long chains, dense and huge boxes."""

from __future__ import annotations

from explorer.view.layout.layout_graph import GAP, RANK_GAP, LayoutGraph, Placed
from explorer.view.tree.topological import ranks

_SWEEPS = 4


class Layered:
    """Layered layout: ranks by longest path, each ordered by the mean position of its neighbours."""

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
    place = [0.0] * len(graph.sizes)
    for row in rows:
        for index, item in enumerate(row):
            place[item] = (index + 0.5) / len(row)
    # A chain has nothing to sort: the common case of the graphs that come here.
    if max(map(len, rows), default=0) == 1:
        return
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            wish = {
                item: sum(place[neighbour] for neighbour in neighbours[item]) / len(neighbours[item])
                if neighbours[item]
                else place[item]
                for item in row
            }
            row.sort(key=wish.__getitem__)
            for index, item in enumerate(row):
                # A share of the row, not a number: neighbours stand in rows of other lengths.
                place[item] = (index + 0.5) / len(row)


def _coordinates(rows: list[list[int]], graph: LayoutGraph) -> Placed:
    widths = [sum(graph.sizes[item][0] for item in row) + GAP * (len(row) - 1) for row in rows]
    wide = max(widths, default=0)
    centres = [(0, 0)] * len(graph.sizes)
    top = 0
    for row, width in zip(rows, widths, strict=True):
        high = max(graph.sizes[item][1] for item in row)
        left = (wide - width) // 2
        for item in row:
            centres[item] = (left + graph.sizes[item][0] // 2, top + high // 2)
            left += graph.sizes[item][0] + GAP
        top += high + RANK_GAP
    size = (wide, max(0, top - RANK_GAP))
    tops = _ports(
        [(-1 - tail, centres[head][0]) for tail, head in graph.edges if tail < 0 <= head], graph.order[0], wide
    )
    bottoms = _ports(
        [(-1 - head, centres[tail][0]) for tail, head in graph.edges if head < 0 <= tail], graph.order[1], wide
    )
    return Placed(size, centres, [[]] * len(graph.edges), (tops, bottoms))


def _ports(ends: list[tuple[int, int]], order: tuple[int, ...], wide: int) -> list[int]:
    """Put a single port in the middle, several ones above the items they lead to, in order; ``ends`` are (port, x)."""
    if len(order) == 1:
        return [wide // 2]
    reached = [[x for port, x in ends if port == number] for number in range(len(order))]
    # Where ports are and which port is where are taken apart: ports keep the order that the outer graph gave them, even
    # if the items they lead to stand otherwise.
    xs = sorted(sum(positions) // len(positions) for positions in reached)
    return [xs[order.index(port)] for port in range(len(order))]
