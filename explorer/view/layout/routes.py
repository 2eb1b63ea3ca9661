"""Routes of edges, finished after dot: ends next to each other, vertical where they meet boxes and pass by them.

dot ends all edges of a side in one point, and bends them as it likes next to boxes. When a box is opened the page
stretches the axis over it, without a new layout; so routes are cut here at the heights where stretching begins and
ends, and are vertical there, and stay smooth when the parts move apart.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from explorer.view.layout.layout_graph import LayoutGraph
from explorer.view.layout.trunk import trunk

_SPREAD, _CORNER, _FLAT = 18, 12, 8
"""px between the ends of edges at a node, at most, and free at its corners, which are round; and of a flat curve"""
_NEAR = 16
"""px between a cut of a curve and its ends, at least"""
_STUB = 24
"""px of the handle at an end of a curve at a box, at least"""
_FREE, _SAMPLES = 6, 24
"""px that a bent curve stays to the side of items, and the parts of it that are looked at"""


def finished(graph: LayoutGraph, centres: list[tuple[int, int]], routes: list[list[int]]) -> list[list[int]]:
    """Return the routes of dot as they are drawn."""
    _spread(graph, routes)
    items = _Items(graph, centres)
    _straighten(graph, items, routes)
    _bend(items, routes)
    cuts = _cuts(graph, centres)
    return [_cut(route, cuts) for route in routes] if cuts else routes


def _spread(graph: LayoutGraph, routes: list[list[int]]) -> None:
    """Spread the ends of edges at a node: operands arrive side by side, in the order they come from.

    A trunk arrives in the middle, and the others next to it.
    """
    straight = trunk(len(graph.sizes), graph.edges)
    arriving: dict[int, list[int]] = {}
    for edge, (_, head) in enumerate(graph.edges):
        if head >= 0 and head not in graph.boxes:
            arriving.setdefault(head, []).append(edge)
    for head, edges in arriving.items():
        edges.sort(key=lambda edge: (routes[edge][-8], routes[edge][0]))
        middle = next((place for place, edge in enumerate(edges) if graph.edges[edge] in straight), None)
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
            longer = max(route[3], min(route[1] + _STUB, route[7]))
            if longer != route[3] and not items.are_met([*route[:3], longer, *route[4:8]]):
                route[3] = longer
        if head < 0 or head in graph.boxes:
            route[-4] = route[-2]
            longer = min(route[-3], max(route[-1] - _STUB, route[-7]))
            if longer != route[-3] and not items.are_met([*route[-8:-3], longer, *route[-2:]]):
                route[-3] = longer
        # Control points that reach past the ends of their curve would swing out when an axis is stretched.
        for first in range(1, len(route) - 6, 6) if graph.boxes else ():
            top, bottom = route[first], route[first + 6]
            if bottom - top > _FLAT:
                route[first + 2] = min(max(route[first + 2], top), bottom)
                route[first + 4] = min(max(route[first + 4], top), bottom)


def _bend(items: _Items, routes: list[list[int]]) -> None:
    """Bend wide curves that are vertical at both ends, of which dot draws most as a slanted line, where there is room.

    Their handles are half as long as they are high, unless the curve would then lie over an item.
    """
    for route in routes:
        for first in range(0, len(route) - 2, 6):
            x0, y0, x1, y1, x2, y2, x3, y3 = route[first : first + 8]
            middle = (y0 + y3) // 2
            is_slanted = x1 == x0 and x2 == x3 and abs(x3 - x0) > y3 - y0 and y1 < middle < y2
            if is_slanted and not items.are_met([x0, y0, x0, middle, x3, middle, x3, y3]):
                route[first + 3] = route[first + 5] = middle


class _Items:
    """Places of the items of a graph, to be asked whether a curve lies over one."""

    def __init__(self, graph: LayoutGraph, centres: list[tuple[int, int]]) -> None:
        self.rects = sorted(
            (y - high // 2, y + high // 2, x - wide // 2 - _FREE, x + wide // 2 + _FREE)
            for (x, y), (wide, high) in zip(centres, graph.sizes, strict=True)
        )
        """top, bottom, left and right of each, from the top"""
        self.highest = max((bottom - top for top, bottom, _, _ in self.rects), default=0)

    def are_met(self, curve: list[int]) -> bool:
        """Whether a curve that leads down, of four points, lies over an item, or near the side of one."""
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
    """Return the heights at which the stretching of the axis begins and ends when boxes are opened, near ones once."""
    heights = {centres[box][1] + side * graph.sizes[box][1] // 2 for box in graph.growing for side in (-1, 1)}
    cuts: list[int] = []
    for height in sorted(heights):
        if not cuts or height - cuts[-1] >= _NEAR:
            cuts.append(height)
    return cuts


def _cut(route: list[int], cuts: list[int]) -> list[int]:
    """Cut the curves of a route that passes by boxes where these begin and end, and make it vertical there.

    An axis that is stretched moves control points; a curve over both stretched and unstretched parts would be drawn
    through the boxes that it passes by.
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
    """Return the control points of the two parts into which a height cuts a curve that leads down."""
    low, high = 0.0, 1.0
    y0, y1, y2, y3 = (float(y) for _, y in curve)
    # Twenty halvings find the parameter to a millionth, far below a pixel; only the height of the cut decides.
    for _ in range(20):
        middle = (low + high) / 2
        before, between, after = y0 + middle * (y1 - y0), y1 + middle * (y2 - y1), y2 + middle * (y3 - y2)
        before, after = before + middle * (between - before), between + middle * (after - between)
        low, high = (middle, high) if before + middle * (after - before) < height else (low, middle)
    parts = _halves(curve, middle)
    rounded = [(round(x), round(y)) for x, y in parts]
    rounded[3] = rounded[3][0], height
    return rounded


def _halves(curve: list[tuple[int, int]], share: float) -> list[tuple[float, float]]:
    """Cut a curve in two at a share of its length, by de Casteljau's construction."""
    rows: list[list[tuple[float, float]]] = [[(float(x), float(y)) for x, y in curve]]
    while len(rows[-1]) > 1:
        rows.append([(a + share * (c - a), b + share * (d - b)) for (a, b), (c, d) in pairwise(rows[-1])])
    return [row[0] for row in rows] + [row[-1] for row in rows[-2::-1]]
