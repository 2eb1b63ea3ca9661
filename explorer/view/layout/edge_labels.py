"""Edge labels, which show the type of a value next to the middle of its edge if there is space.

Space is searched once, in a box with closed child boxes. It remains free when child boxes are opened, because
stretching the axes moves everything apart, and a label keeps its point on the edge.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

from explorer.record.view_choices import Direction
from explorer.view.base import font
from explorer.view.layout.direction import exchanged
from explorer.view.model.labels import PORT
from explorer.view.model.picture_model import Model

HEIGHT, OFFSET = 12, 5
"""height of a label, and distance from its edge, in px; payload/script_bundle.py passes them to the front end"""
_APART, _SHEET = 3, 5
"""px between a label and other shapes, and offset of the sheet drawn under a closed box"""
_Rect = tuple[int, int, int, int]
"""left, top, right, bottom"""


@dataclass(frozen=True, slots=True)
class EdgeLabel:
    """Space for the label of an edge (item to item, −1 for the border), which carries the value of one slot."""

    start: int
    end: int
    ports: tuple[int, int]
    """ports at both ends"""
    point: tuple[int, int]
    """middle of one of the edge's curves, in the frame of the box"""
    side: int
    """1 to the right of the edge, or above it if values flow to the right; −1 on the other side"""
    slot: int


def edge_labels(
    model: Model,
    box: int,
    direction: Direction,
    rects: list[list[int]],
    routes: list[list[int]],
    frame: _Rect,
) -> list[EdgeLabel]:
    """Return labels for the edges of a box that have space for one in a frame, at most one label for each value."""
    sheets = [_SHEET * (table == "box") for table, _ in model.tree.boxes[box].items]
    occupied = _Occupied([_around(place, sheet, direction) for place, sheet in zip(rects, sheets, strict=True)])
    for members in model.groups[box]:
        occupied.add(_title([_around(rects[member], 0, direction) for member in members]))
    left, top, right, bottom = frame
    labels, labelled = [], set()
    for (start, end, out, into), route in zip(model.ports.edges[box], routes, strict=True):
        slot = _slot(model, box, start, end, out)
        # Beyond the border the edge continues, and has its label there.
        if slot < 0 or end < 0 or (start, slot) in labelled or not route:
            continue
        wide = label_width(model, slot)
        for (x, y), side in _candidates(exchanged(route, direction)):
            # Includes the point, so that no item is between the label and its point, even after stretching.
            rect = _with_point(x, y, label_rect(x, y, side, wide, direction))
            if left <= rect[0] and top <= rect[1] and rect[2] <= right and rect[3] <= bottom and occupied.free(rect):
                occupied.add(rect)
                labelled.add((start, slot))
                across, along = exchanged((x, y), direction)
                labels.append(EdgeLabel(start, end, (out, into), (across, along), side, slot))
                break
    return labels


def label_width(model: Model, slot: int) -> int:
    """Return the width in px of the widest type of a slot's nodes, rounded up to an even number."""
    widest = max(font.width(model.texts[row][1], PORT) for row in model.slot_texts[slot])
    return int(widest + 1.999) // 2 * 2


def _slot(model: Model, box: int, start: int, end: int, port: int) -> int:
    """Return the slot whose value an edge carries; −1 for several slots, and for a value from outside the box."""
    if start < 0:
        return -1
    table, index = model.tree.boxes[box].items[start]
    return index if table == "slot" else model.ports.left.get((index, end, port), -1)


def label_rect(x: int, y: int, side: int, wide: int, direction: Direction) -> _Rect:
    """Return the rectangle of a label with a given width at a point of an edge."""
    if direction == "right":
        middle = y - side * (OFFSET + HEIGHT // 2)
        return x - wide // 2, middle - HEIGHT // 2, x + wide // 2, middle + HEIGHT // 2
    left = x + OFFSET if side > 0 else x - OFFSET - wide
    return left, y - HEIGHT // 2, left + wide, y + HEIGHT // 2


def _with_point(x: int, y: int, rect: _Rect) -> _Rect:
    left, top, right, bottom = rect
    return min(left, x), min(top, y), max(right, x), max(bottom, y)


def _candidates(route: list[int]) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the middles of a route's curves with both sides: first of lines, then from the middle outwards."""
    curves = range(0, len(route) - 2, 6)
    across = [route[first] != route[first + 6] and route[first + 1] != route[first + 7] for first in curves]
    for curve in sorted(curves, key=lambda first: (across[first // 6], abs(2 * first - curves[-1]), first)):
        xs, ys = route[curve : curve + 8 : 2], route[curve + 1 : curve + 8 : 2]
        x, y = [(a + 3 * b + 3 * c + d) // 8 for a, b, c, d in (xs, ys)]
        yield from (((x, y), side) for side in (1, -1))


def _around(rect: list[int], sheet: int, direction: Direction) -> _Rect:
    x, y, wide, high = exchanged(rect, direction)
    return x, y, x + wide + sheet, y + high + sheet


def _title(members: list[_Rect]) -> _Rect:
    """Return the rectangle for the title above a kernel's outline."""
    left, right = min(rect[0] for rect in members), max(rect[2] for rect in members)
    top = min(rect[1] for rect in members)
    return left - 10, top - 28, right + 10, top - 10


class _Occupied:
    """Rectangles that a label must not touch, sorted by their tops."""

    def __init__(self, rects: list[_Rect]) -> None:
        self._rects = sorted((top, left, right, bottom) for left, top, right, bottom in rects)
        self._highest = max((bottom - top for top, _, _, bottom in self._rects), default=0)

    def add(self, rect: _Rect) -> None:
        left, top, right, bottom = rect
        insort(self._rects, (top, left, right, bottom))
        self._highest = max(self._highest, bottom - top)

    def free(self, rect: _Rect) -> bool:
        left, top, right, bottom = rect
        for index in range(bisect_left(self._rects, (top - self._highest - _APART,)), len(self._rects)):
            above, begin, end, below = self._rects[index]
            if above >= bottom + _APART:
                return True
            if begin < right + _APART and end > left - _APART and below > top - _APART:
                return False
        return True
