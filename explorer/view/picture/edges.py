"""Edges of a static picture: a curve for each segment, and the names of layers' ports at its ends.

An edge that leads into boxes is cut at their borders into segments, and edges that take the same way share them. The
layout has a curve for each segment that it placed; for one that only some step shows there is none, and a plain curve
stands for it.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, inf

from explorer.view.base import font
from explorer.view.base.font import LEVEL, PORT_BESIDES, PORT_CHARACTER
from explorer.view.base.markup import Markup, element
from explorer.view.layout.direction import Direction
from explorer.view.layout.edge_labels import label_rect
from explorer.view.layout.placement import Scene, Segment, plain_segment
from explorer.view.model.labels import PORT
from explorer.view.model.picture_model import Model
from explorer.view.replay.state import State
from explorer.view.tree.box_tree import Paths
from explorer.view.tree.box_tree import Segment as Key


def visible_segments(
    model: Model, scene: Scene, state: State, is_open: Collection[int], outermost: int
) -> list[tuple[Segment, bool]]:
    """Return the segments of live edges (True) and of ghosts' edges (False) in the graph of an outermost box."""
    paths, alive_of = Paths(model.tree, model.ports.number), {}
    body, bodies = model.recording.nodes.body, model.tree.bodies
    inside = [bodies[body[nodes[0]]] == outermost for nodes in model.slots.nodes]
    # Live edges last: a segment that a ghost's edge and a live one share is drawn as a live one.
    for edges, alive in ((state.ghost_edges, False), (state.edges, True)):
        for producer, consumer in edges:
            if inside[producer] and inside[consumer]:
                for segment in paths.segments(producer, consumer):
                    alive_of[segment] = alive
    laid = {segment.key: segment for segment in scene.segments}
    return [
        (laid.get(key) or plain_segment(model, scene, key[0], key[1:3], key[3:]), alive)
        for key, alive in alive_of.items()
        if key in laid or (key[0] in scene.boxes and key[0] in is_open)
    ]


def declined_keys(model: Model, state: State) -> set[Key]:
    """Return the keys of the segments of edges that a decision declined to fuse."""
    paths = Paths(model.tree, model.ports.number)
    return {segment for edge in state.declined_edges for segment in paths.segments(*edge)}


def lines(segments: list[tuple[Segment, bool]], marker: str, declined: Collection[Key] = ()) -> list[Markup]:
    """Draw the edges: those that end in an arrow head (the marker of an id), then those without.

    ``declined`` ones have a ✗ in the middle.
    """
    drawn: dict[bool, list[Markup]] = {True: [], False: []}
    for segment, is_alive in segments:
        is_declined = segment.key in declined
        look = "declined" if is_declined else None if is_alive else "gone"
        drawn[segment.arrow].append(element("path", d=path(segment.points), class_=look))
        if is_declined and segment.arrow:
            drawn[False].append(element("path", d=cross(segment.points), class_="declined"))
    # A marker is inherited: once at the group, instead of at each path.
    with_head = element("g", *drawn[True], class_="edge", marker_end=f"url(#{marker})")
    return [with_head, *([element("g", *drawn[False], class_="edge")] if drawn[False] else [])]


def cross(points: list[int]) -> str:
    """Return a ✗ in the middle of a curve as an SVG path; of an even number of curves, where the middle two meet."""
    curves = (len(points) - 2) // 6
    start = 6 * ((curves - 1) // 2)
    xs, ys = points[start : start + 8 : 2], points[start + 1 : start + 8 : 2]
    # The point of a cubic Bézier curve at its parameter 1/2.
    x, y = [(a + 3 * b + 3 * c + d) // 8 if curves % 2 else d for a, b, c, d in (xs, ys)]
    return f"M{x - 5} {y - 5}l10 10m0-10l-10 10"


def port_labels(segments: list[tuple[Segment, bool]], direction: Direction) -> list[Markup]:
    """Draw the names of layers' ports next to the edges that end there, each once at a place.

    Names of several edges that end in one place stand on both sides of it, each where its edge comes from. To the right
    a name lies along its edge, and is left out where that is level and shorter (static/canvas/port_names.js).
    """
    down = direction == "down"
    starts: dict[tuple[int, int], dict[str, int]] = {}
    ends: dict[tuple[int, int], dict[str, int]] = {}
    rooms: dict[tuple[bool, int, int], float] = {}
    for segment, _ in segments:
        x0, y0, *_, x1, y1 = segment.points
        first, last = segment.names
        room = inf if down or abs(y1 - y0) >= LEVEL else x1 - x0
        if first and not (last and PORT_CHARACTER * len(first + last) + 2 * PORT_BESIDES > room):
            starts.setdefault((x0, y0), {}).setdefault(first, x0 if down else y0)
            rooms[False, x0, y0] = min(room, rooms.get((False, x0, y0), room))
        if last:
            ends.setdefault((x1, y1), {}).setdefault(last, x0 if down else y0)
            rooms[True, x1, y1] = min(room, rooms.get((True, x1, y1), room))
    drawn = []
    for (x, y), names in starts.items():
        text = ", ".join(names)
        if _fits(text, rooms[False, x, y]):
            drawn.append(_port(text, x + 5, y + 10 if down else y - 4))
    for (x, y), names in ends.items():
        ordered = sorted(names, key=names.__getitem__)
        before, behind = (", ".join(part) for part in (ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]))
        if before and _fits(before, rooms[True, x, y]):
            drawn.append(_port(before, *((x - 5, y - 5) if down else (x - 9, y - 4)), "text-anchor:end"))
        if _fits(behind, rooms[True, x, y]):
            beside = (x + 5, y - 5, None) if down else (x - 9, y + 9 if before else y - 4, "text-anchor:end")
            drawn.append(_port(behind, *beside))
    return drawn


def _fits(text: str, room: float) -> bool:
    """Whether a name is no longer than the level edge that it lies along."""
    return PORT_CHARACTER * len(text) + PORT_BESIDES < room


def _port(text: str, x: int, y: int, style: str | None = None) -> Markup:
    return element("text", text, x=x, y=y, class_="port", style=style)


def edge_labels(model: Model, scene: Scene, state: State, segments: list[tuple[Segment, bool]]) -> list[Markup]:
    """Draw the types of values next to the edges of which there is room for a label; a declined one has a ✗ there."""
    standing = {segment.key for segment, is_alive in segments if is_alive}
    drawn = []
    declined = declined_keys(model, state)
    for label in scene.labels:
        node = state.shown.get(label.slot, -1)
        if node >= 0 and label.key in standing and label.key not in declined:
            row = model.slot_texts[label.slot][model.slots.nodes[label.slot].index(node)]
            text = model.texts[row][1]
            wide = ceil(font.width(text, PORT) / 2) * 2
            left, top, right, bottom = label_rect(*label.point, label.side, wide, scene.direction)
            drawn.append(element("text", text, x=(left + right) // 2, y=(top + bottom) // 2 + 3, class_="label"))
    return drawn


def path(points: list[int]) -> str:
    """Return control points as an SVG path; each curve is relative to where it begins, which takes fewer digits."""
    x, y = points[:2]
    steps: list[int] = []
    for start in range(2, len(points), 6):
        curve = points[start : start + 6]
        steps += [value - (y if place % 2 else x) for place, value in enumerate(curve)]
        x, y = curve[4:]
    # A minus sign separates two numbers by itself.
    numbers = "".join(f"{step}" if place == 0 or step < 0 else f" {step}" for place, step in enumerate(steps))
    return f"M{points[0]} {points[1]}c{numbers}"
