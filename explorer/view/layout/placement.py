"""Composition: absolute positions of visible items for a set of open boxes; view_payload.py specifies the rules.

Static pictures use it; scene/placement.js is its counterpart in the browser, and tests/browser/test_same_picture.py
compares the two. Boxes are laid out separately and composed by stretching axes, rather than laid out together, so that
opening a box never reorders the items around it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import floor, sqrt

from explorer.record.view_choices import Direction
from explorer.view.layout.box_layout import Layouts, special_edges
from explorer.view.layout.direction import exchanged
from explorer.view.layout.positions import BoxLayout
from explorer.view.model.picture_model import Model
from explorer.view.tree.box_tree import Segment as SegmentKey

Rect = tuple[int, int, int, int]
_MOVED = 16
"""maximum sideways movement in px of an edge's end, at a port of an opened box, without moving the next joint"""
_STRAIGHT = 0.98
"""cosine of 11°, the maximum angle between two curves that join smoothly"""


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of an edge inside one open box; items have indices in that box, and −1 is its border."""

    box: int
    start: int
    end: int
    points: list[int]
    arrow: bool
    """whether it ends at a node or a closed box"""
    ports: tuple[int, int] = (0, 0)
    names: tuple[str, str] = ("", "")
    """names of the layers' ports at both ends"""

    @property
    def key(self) -> SegmentKey:
        """Box, items and ports, as yielded by ``Paths.segments``."""
        return self.box, self.start, self.end, *self.ports


@dataclass(frozen=True, slots=True)
class Label:
    """Label of an edge inside one open box: its point, its side, and the slot whose type it shows."""

    box: int
    start: int
    end: int
    ports: tuple[int, int]
    point: tuple[int, int]
    side: int
    slot: int

    @property
    def key(self) -> SegmentKey:
        """Key of the edge's segment."""
        return self.box, self.start, self.end, *self.ports


@dataclass(slots=True)
class Scene:
    """Visible items, as x, y, width, height in px in the frame of the outermost box."""

    size: tuple[int, int]
    direction: Direction = "down"
    slots: dict[int, Rect] = field(default_factory=dict)
    boxes: dict[int, Rect] = field(default_factory=dict)
    """visible boxes, open and closed, each after its ancestors"""
    ports: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """for each open box, the distances of its top and bottom ports from its left side, or if values flow to the right,
    of its left and right ports from its top"""
    labels: list[Label] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    """segments with a route or a named port; all others are plain curves"""


class _Axis:
    """Monotone piecewise linear map of one axis, steeper where opened items need space."""

    def __init__(self, needs: Iterable[tuple[float, float, float]]) -> None:
        wanted = [(start, start + length, want / length) for start, length, want in needs if want > length > 0]
        cuts = sorted({0.0, *(cut for start, end, _ in wanted for cut in (start, end))})
        self._from, self._to, self._slope = cuts, [0.0], []
        for index, cut in enumerate(cuts):
            self._slope.append(max([1.0, *(slope for start, end, slope in wanted if start <= cut < end)]))
            if index + 1 < len(cuts):
                self._to.append(self._to[-1] + (cuts[index + 1] - cut) * self._slope[-1])

    def __call__(self, value: float) -> float:
        index = max(0, bisect_right(self._from, value) - 1)
        return self._to[index] + (value - self._from[index]) * (self._slope[index] if value >= 0 else 1)


@dataclass(slots=True)
class _Open:
    """Composed open box, in its own frame."""

    size: tuple[float, float]
    ports: tuple[list[float], list[float]]
    rects: list[tuple[float, float, float, float]]
    x: _Axis
    y: _Axis


def compose(model: Model, layouts: Layouts, is_open: Collection[int], outermost: int = 0) -> Scene:
    """Place ``outermost`` and everything visible inside it when the boxes ``is_open`` are open."""
    visible = _visible(model, layouts, is_open, outermost)
    composed: dict[int, _Open] = {}
    # From the innermost outwards, since a box is as large as its contents.
    for box in reversed(visible):
        composed[box] = _compose_box(model, layouts[box], box, composed)
    size = composed[outermost].size
    wide, high = exchanged([_px(size[0]), _px(size[1])], layouts.direction)
    scene = Scene((wide, high), layouts.direction)
    origin = {outermost: (0.0, 0.0)}
    scene.boxes[outermost] = (0, 0, wide, high)
    for box in visible:
        left, top = origin[box]
        for (table, index), (x, y, across, along) in zip(model.tree.boxes[box].items, composed[box].rects, strict=True):
            if not across:
                continue
            rect = _flowing((_px(left + x), _px(top + y), _px(across), _px(along)), layouts.direction)
            if table == "slot":
                scene.slots[index] = rect
            else:
                scene.boxes[index] = rect
                origin[index] = (left + x, top + y)
        tops, bottoms = composed[box].ports
        scene.ports[box] = ([_px(x) for x in tops], [_px(x) for x in bottoms])
    for box in visible:
        own, (left, top) = composed[box], origin[box]
        for label in layouts[box].labels:
            across, along = own.x(label.point[0]), own.y(label.point[1])
            x, y = exchanged((_px(left + across), _px(top + along)), layouts.direction)
            scene.labels.append(Label(box, label.start, label.end, label.ports, (x, y), label.side, label.slot))
        scene.segments += _segments(model, layouts[box], box, composed, origin[box], scene)
    return scene


def _flowing(rect: Rect, direction: Direction) -> Rect:
    """Exchange the axes of a rectangle if values flow to the right."""
    x, y, wide, high = rect
    return rect if direction == "down" else (y, x, high, wide)


def _px(value: float) -> int:
    """Round to the nearest pixel, halves up, as browsers do."""
    return floor(value + 0.5)


def plain_segment(
    model: Model,
    scene: Scene,
    box: int,
    edge: tuple[int, int],
    ports: tuple[int, int] = (0, 0),
    names: tuple[str, str] = ("", ""),
) -> Segment:
    """Return the plain curve of an edge without a route, from the bottom of one item to the top of another."""
    start, end = edge

    def point(item: int, is_start: bool, port: int) -> tuple[int, int]:
        table, index = model.tree.boxes[box].items[item] if item >= 0 else ("box", box)
        x, y, wide, high = _flowing(scene.slots[index] if table == "slot" else scene.boxes[index], scene.direction)
        is_bottom = is_start == (item >= 0)
        is_open = table == "box" and index in scene.ports
        return x + (scene.ports[index][is_bottom][port] if is_open else wide // 2), y + (high if is_bottom else 0)

    (x0, y0), (x1, y1) = point(start, True, ports[0]), point(end, False, ports[1])
    bend = max(16, abs(y1 - y0) // 2)
    points = exchanged([x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1], scene.direction)
    return Segment(box, start, end, points, _has_arrow(model, box, end, scene.ports), ports, names)


def _settle(points: list[int], end: int, near: int, joint: int, far: int, other: int) -> None:
    """Move the joint next to an end that has moved sideways, with its handles, between that end and the next joint.

    The arguments are x positions. The edge would otherwise swing to the previous position of its end, and back.
    """
    low, high = sorted((points[end], points[other]))
    shift = min(max(points[joint], low), high) - points[joint]
    for index in (near, joint, far):
        points[index] += shift
    low, high = sorted((points[end], points[joint]))
    points[near] = min(max(points[near], low), high)


def _smooth(points: list[int]) -> None:
    """Align the handles at each joint of two curves, if stretching or a moved end has bent them.

    Handles keep their lengths, unless they would extend beyond the heights of their curves' other ends.
    """
    for joint in range(6, len(points) - 2, 6):
        x, y = points[joint], points[joint + 1]
        ax, ay = x - points[joint - 2], y - points[joint - 1]
        bx, by = points[joint + 2] - x, points[joint + 3] - y
        before, after = sqrt(ax * ax + ay * ay), sqrt(bx * bx + by * by)
        if before < 1 or after < 1 or ax * bx + ay * by > _STRAIGHT * before * after:
            continue
        dx, dy = ax / before + bx / after, ay / before + by / after
        length = sqrt(dx * dx + dy * dy)
        if dy <= 0 or length < 0.01:
            continue
        above = min(before, max(0, y - points[joint - 5]) * length / dy)
        below = min(after, max(0, points[joint + 7] - y) * length / dy)
        if above < 1 or below < 1:
            continue
        points[joint - 2], points[joint - 1] = _px(x - dx / length * above), _px(y - dy / length * above)
        points[joint + 2], points[joint + 3] = _px(x + dx / length * below), _px(y + dy / length * below)


def _has_arrow(model: Model, box: int, end: int, composed: Collection[int]) -> bool:
    """Return whether a segment ends at a node or a closed box."""
    if end < 0:
        return False
    table, index = model.tree.boxes[box].items[end]
    return table == "slot" or index not in composed


def _visible(model: Model, layouts: Layouts, is_open: Collection[int], outermost: int) -> list[int]:
    """List the visible open boxes, outermost first."""
    visible_boxes = [outermost]
    # Grows during the loop: boxes inside open ones are appended.
    for box in visible_boxes:
        visible_boxes += [
            index
            for (table, index), (_, _, wide, _) in zip(model.tree.boxes[box].items, layouts[box].rects, strict=True)
            if table == "box" and wide and index in is_open
        ]
    return visible_boxes


def _compose_box(model: Model, layout: BoxLayout, box: int, composed: dict[int, _Open]) -> _Open:
    items = model.tree.boxes[box].items
    opened = [
        (rect, composed[index])
        for (table, index), rect in zip(items, layout.rects, strict=True)
        if table == "box" and index in composed
    ]
    x = _Axis(half for rect, child in opened for half in _halves(rect, child))
    y = _Axis((rect[1], rect[3], child.size[1]) for rect, child in opened)
    rects = []
    for (table, index), (left, top, wide, high) in zip(items, layout.rects, strict=True):
        if table == "box" and index in composed:
            size, entry = composed[index].size, _entry(composed[index])
            middle = (y(top) + y(top + high)) / 2
        else:
            size, entry, middle = (wide, high), wide / 2, y(top + high / 2)
        rects.append((x(left + wide / 2) - entry, middle - size[1] / 2, size[0], size[1]))
    ports = ([x(port) for port in layout.ports[0]], [x(port) for port in layout.ports[1]])
    return _Open((x(layout.size[0]), y(layout.size[1])), ports, rects, x, y)


def _entry(child: _Open) -> float:
    """Return the distance from an open box's left side to its input port, or to its middle if it has several."""
    tops = child.ports[0]
    return tops[0] if len(tops) == 1 else child.size[0] / 2


def _halves(rect: list[int], child: _Open) -> list[tuple[float, float, float]]:
    """Return the space that an opened box needs to the left and to the right of its input port."""
    half = rect[2] / 2
    return [(rect[0], half, _entry(child)), (rect[0] + half, half, child.size[0] - _entry(child))]


def _segments(
    model: Model, layout: BoxLayout, box: int, composed: dict[int, _Open], origin: tuple[float, float], scene: Scene
) -> list[Segment]:
    own, items = composed[box], model.tree.boxes[box].items

    def end(item: int, x: float, y: float, is_start: bool, port: int) -> tuple[float, float]:
        """Return the composed position of an edge's end, which was at (x, y) of an item."""
        if item < 0:
            return own.ports[not is_start][port], 0.0 if is_start else own.size[1]
        left, top, wide, high = own.rects[item]
        table, index = items[item]
        if table == "box" and index in composed:
            return left + composed[index].ports[is_start][port], top + (high if is_start else 0.0)
        x0, y0, w, h = layout.rects[item]
        return left + wide / 2 + x - x0 - w / 2, top + high / 2 + y - y0 - h / 2

    segments = []
    for (tail, head), route, (out, into), names in special_edges(model, box, layout):
        if not route:
            segments.append(plain_segment(model, scene, box, (tail, head), (out, into), names))
            continue
        points = [(own.x(x), own.y(y)) for x, y in zip(route[::2], route[1::2], strict=True)]
        start = end(tail, route[0], route[1], True, out)
        stop = end(head, route[-2], route[-1], False, into)
        first = (start[0] - points[0][0], start[1] - points[0][1])
        last = (stop[0] - points[-1][0], stop[1] - points[-1][1])
        count = len(points) - 1
        moved: list[int] = []
        for k, (x, y) in enumerate(points):
            # The ends follow the items that they touch, along with adjacent control points, so that edges still leave
            # and arrive vertically. Other points stay next to the items that they pass, and remain as smooth as before.
            shift_x, shift_y = first if k <= 1 else last if k >= count - 1 else (0, 0)
            moved.append(_px(origin[0] + x + shift_x))
            moved.append(_px(origin[1] + y + shift_y))
        if count > 3:
            if abs(first[0]) > _MOVED:
                _settle(moved, 0, 4, 6, 8, 12)
            if abs(last[0]) > _MOVED:
                _settle(moved, -2, -6, -8, -10, -14)
        _smooth(moved)
        moved = exchanged(moved, scene.direction)
        segments.append(Segment(box, tail, head, moved, _has_arrow(model, box, head, composed), (out, into), names))
    return segments
