"""Routes of edges: vertical next to the items that they pass, with bends only between rows of items.

The engine decides where an edge passes a row: between which items and next to which edges. This order is kept, so
edges cross only where the engine crosses them. Within it, each edge is as straight as its neighbours allow, and leaves
and enters its items where they are closest to each other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TypeAlias

from explorer.view.layout.layout_engine import LayoutGraph

_CORNER = 10
"""px at both corners of an item where no edge ends, since they are round"""
_SPREAD = 18
"""maximum px between the ends of edges that enter an item"""
_FREE, _APART = 8, 10
"""minimum px between an edge and an item that it passes, and between two edges"""
_SHEET, _OUTLINE = 5, 10
"""px by which the sheet under a box, and the outline of a group, extend beyond an item"""
_HANDLE = 0.4
"""length of a bend's handles relative to its height"""
_FLAT = 4
"""maximum px of a line that a bend replaces"""
_FAR = 10**9
"""px beyond everything"""
_ROUNDS = 2
"""number of times that each edge is straightened between its neighbours, which then move as well"""

Interval: TypeAlias = tuple[int, int]


@dataclass(slots=True, eq=False)
class _Mark:
    """Item in a row, or point at which an edge passes a row or ends at an item."""

    x: int
    half: int = 0
    """half of an item's width"""
    tail: int = -1
    """item at which the edge starts"""
    low: int = -_FAR
    high: int = _FAR
    """minimum and maximum of x, regardless of the neighbours"""
    apart: int = _APART
    """minimum px to neighbours that are edges"""
    left: _Mark | None = None
    right: _Mark | None = None

    def interval(self) -> Interval:
        """Return the interval of x between the neighbours, which contains the current x."""
        # Comparisons, because calls of min and max would take most of the time of routing.
        low, high, x, left, right = self.low, self.high, self.x, self.left, self.right
        if left:
            least = left.x + self._distance(left)
            low = least if least > low else low
        if right:
            most = right.x - self._distance(right)
            high = most if most < high else high
        return (low if low < x else x), (high if high > x else x)

    def _distance(self, other: _Mark) -> int:
        if other.half:
            return other.half + _FREE
        return 0 if self.tail == other.tail >= 0 else self.apart


class EdgeRoutes:
    """Search for the routes of a graph's edges, given those that should be straight, and the engine's positions."""

    def __init__(
        self,
        graph: LayoutGraph,
        straight: Collection[tuple[int, int]],
        centres: list[tuple[int, int]],
        routes: list[list[int]],
    ) -> None:
        self._graph, self._trunk, self._centres, self._engine_routes = graph, straight, centres, routes
        self._grouped = {item for group in graph.groups for item in group}
        self._middles = sorted({y for _, y in centres})
        row_of = {y: row for row, y in enumerate(self._middles)}
        self._row_of = [row_of[y] for _, y in centres]
        self._items: list[list[int]] = [[] for _ in row_of]
        for item, row in enumerate(self._row_of):
            self._items[row].append(item)
        heights = [[graph.sizes[item][1] for item in row] for row in self._items]
        self._lowest, self._highest = [min(row) for row in heights], [max(row) for row in heights]
        self._marks = [self._along(edge) for edge in range(len(graph.edges))]
        self._arrange_rows()
        self._arrange_ends()

    def routes(self) -> list[list[int]]:
        """Return the control points of each edge's curves."""
        edges = [edge for edge, marks in enumerate(self._marks) if marks]
        edges.sort(key=lambda edge: (self._graph.edges[edge] not in self._trunk, -len(self._marks[edge])))
        for _ in range(_ROUNDS):
            edges = [edge for edge in edges if not _is_straight(self._marks[edge])]
            for edge in edges:
                _straighten(self._marks[edge])
        return [
            self._route(edge, marks) if marks else self._engine_routes[edge] for edge, marks in enumerate(self._marks)
        ]

    def _ends(self, edge: int) -> tuple[int, int]:
        """Return the rows of an edge's ends; the border is above the first row and below the last one."""
        tail, head = self._graph.edges[edge]
        return -1 if tail < 0 else self._row_of[tail], len(self._items) if head < 0 else self._row_of[head]

    def _along(self, edge: int) -> list[_Mark]:
        """Return the marks of an edge from its start to its end; none if it does not lead down."""
        (tail, head), (first, last), route = self._graph.edges[edge], self._ends(edge), self._engine_routes[edge]
        if first >= last:
            return []
        passed = [_Mark(_x_at(route, self._middles[row]), tail=tail) for row in range(first + 1, last)]
        return [self._end(tail, route[0], tail), *passed, self._end(head, route[-2], -1)]

    def _end(self, item: int, x: int, tail: int) -> _Mark:
        if item < 0:
            return _Mark(x, low=x, high=x)
        x, half = self._centres[item][0], max(0, self._graph.sizes[item][0] // 2 - _CORNER)
        return _Mark(x, tail=tail, low=x - half, high=x + half)

    def _half(self, item: int) -> int:
        around = _OUTLINE if item in self._grouped else _SHEET if item in self._graph.boxes else 0
        return self._graph.sizes[item][0] // 2 + around

    def _arrange_rows(self) -> None:
        """Join the items and edges of each row to their neighbours."""
        rows: list[list[_Mark]] = [
            [_Mark(self._centres[item][0], half=self._half(item)) for item in row] for row in self._items
        ]
        for edge, marks in enumerate(self._marks):
            for row, mark in enumerate(marks[1:-1], self._ends(edge)[0] + 1):
                rows[row].append(mark)
        for members in rows:
            members.sort(key=attrgetter("x"))
            _join(members)
            for mark in members:
                if not mark.half:
                    _clear(mark)

    def _arrange_ends(self) -> None:
        """Join the ends of the edges at each item, in the order of their other ends."""
        leaving: dict[int, list[int]] = {}
        entering: dict[int, list[int]] = {}
        for edge, (tail, head) in enumerate(self._graph.edges):
            if self._marks[edge]:
                leaving.setdefault(tail, []).append(edge)
                entering.setdefault(head, []).append(edge)
        for tail, edges in leaving.items():
            if tail >= 0:
                edges.sort(key=lambda edge: self._marks[edge][1].x)
                _join([self._marks[edge][0] for edge in edges])
        for head, edges in entering.items():
            if head >= 0:
                edges.sort(key=lambda edge: (self._marks[edge][-2].x, self._marks[edge][0].x))
                self._spread(edges)

    def _spread(self, edges: list[int]) -> None:
        """Spread the ends of edges that enter an item: a trunk in the middle, and the other edges next to it."""
        middle = next((index for index, edge in enumerate(edges) if self._graph.edges[edge] in self._trunk), None)
        centre = (len(edges) - 1) / 2 if middle is None else middle
        widest = max(centre, len(edges) - 1 - centre, 0.5)
        ends = [self._marks[edge][-1] for edge in edges]
        step = min(_SPREAD, int((ends[0].high - ends[0].x) / widest))
        for index, end in enumerate(ends):
            end.x += round((index - centre) * step)
            end.apart = step
        _join(ends)

    def _route(self, edge: int, marks: list[_Mark]) -> list[int]:
        """Return the control points of an edge: a curve between each two rows, and a line along the rows between."""
        first, last = self._ends(edge)
        tail, head = self._graph.edges[edge]
        points = [marks[0].x, self._engine_routes[edge][1] if tail < 0 else self._side(tail, 1)]
        end = self._engine_routes[edge][-1] if head < 0 else self._side(head, -1)
        for row, (mark, following) in enumerate(pairwise(marks), first):
            is_first, is_last = row == first, row + 1 == last
            if mark.x == following.x and not (is_first or is_last):
                continue
            across = sorted((mark.x, following.x))
            start = max(points[-1], self._border(row, 1, across if is_first else None))
            stop = min(end, self._border(row + 1, -1, across if is_last else None))
            stop = end if end - stop <= _FLAT else stop
            _line(points, start)
            handle = round((stop - points[-1]) * _HANDLE)
            points += [mark.x, points[-1] + handle, following.x, stop - handle, following.x, stop]
        _line(points, end)
        return points

    def _side(self, item: int, side: int) -> int:
        """Return the height of the upper (−1) or lower (1) side of an item."""
        return self._centres[item][1] + side * (self._graph.sizes[item][1] // 2)

    def _border(self, row: int, side: int, across: list[int] | None) -> int:
        """Return the upper (−1) or lower (1) border of a row's items, or of those within an interval of x."""
        if not 0 <= row < len(self._items):
            return -side * _FAR
        sizes, items = self._graph.sizes, self._items[row]
        if across and self._lowest[row] < self._highest[row]:
            middle, wide = sum(across), across[1] - across[0] + 2 * _FREE
            items = [item for item in items if abs(2 * self._centres[item][0] - middle) < sizes[item][0] + wide]
            half = max((sizes[item][1] for item in items), default=0) // 2
        else:
            half = self._highest[row] // 2
        return self._middles[row] + side * half


def _line(points: list[int], y: int) -> None:
    """Extend a route by a vertical line."""
    x, top = points[-2:]
    if y > top + _FLAT:
        third = (y - top) // 3
        points += [x, top + third, x, y - third, x, y]


def _join(marks: list[_Mark]) -> None:
    for left, right in pairwise(marks):
        left.right, right.left = right, left


def _clear(mark: _Mark) -> None:
    """Move the mark of an edge out of the items next to it."""
    left, right = mark.left, mark.right
    if left and left.half:
        mark.x = max(mark.x, left.x + left.half + _FREE)
    if right and right.half:
        mark.x = min(mark.x, right.x - right.half - _FREE)


def _is_straight(marks: list[_Mark]) -> bool:
    return all(mark.x == marks[0].x for mark in marks)


def _straighten(marks: list[_Mark]) -> None:
    """Move the marks of an edge so that it has as few and as narrow bends as possible."""
    intervals = [mark.interval() for mark in marks]
    starts = _starts(intervals)
    lines = [_common(intervals[start:end]) for start, end in pairwise([*starts, len(marks)])]
    x = _nearest(lines[1], lines[0][0]) if len(lines) > 1 else (marks[0].x + marks[-1].x) // 2
    for interval, (start, end) in zip(lines, pairwise([*starts, len(marks)]), strict=True):
        x = _nearest(interval, x)
        for mark in marks[start:end]:
            mark.x = x


def _starts(intervals: list[Interval]) -> list[int]:
    """Divide intervals into as few lines with a common x as possible, and return where the lines start.

    Lines between the first and the last one are as long as possible, so that an edge bends next to its ends.
    """
    starts, (least, most) = [0], intervals[0]
    for index, (low, high) in enumerate(intervals):
        if low > most or high < least:
            starts.append(index)
            least, most = low, high
        least, most = low if low > least else least, high if high < most else most
    for line in range(1, len(starts) - 1):
        while starts[line] - 1 > starts[line - 1]:
            low, high = _common(intervals[starts[line] - 1 : starts[line + 1]])
            if low > high:
                break
            starts[line] -= 1
    return starts


def _common(intervals: list[Interval]) -> Interval:
    return max([low for low, _ in intervals]), min([high for _, high in intervals])


def _nearest(interval: Interval, x: int) -> int:
    low, high = interval
    x = low if x < low else x
    return high if x > high else x


def _x_at(route: list[int], y: int) -> int:
    """Return the x at which a route that leads down is at a height."""
    first = 6 * max(0, min(bisect_left(route[1::6], y), (len(route) - 2) // 6) - 1)
    x0, y0, x1, y1, x2, y2, x3, y3 = route[first : first + 8]
    low, high = 0.0, 1.0
    # Twelve bisections find the point to a pixel, on curves of up to 4,000 px.
    for _ in range(12):
        t = (low + high) / 2
        u = 1 - t
        is_above = u * u * u * y0 + 3 * u * t * (u * y1 + t * y2) + t * t * t * y3 < y
        low, high = (t, high) if is_above else (low, t)
    t, u = low, 1 - low
    return round(u * u * u * x0 + 3 * u * t * (u * x1 + t * x2) + t * t * t * x3)
