"""Edges of a static picture: a curve for each segment, with port names of layers at its ends.

An edge that leads into boxes is cut at their borders into segments, which edges on the same path share. The layout has
a curve for each segment that it placed; a segment that exists only at some steps is drawn as a plain curve.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, inf
from operator import mul

from explorer.record.view_choices import Direction
from explorer.view.base import font
from explorer.view.base.font import LEVEL, PORT_BESIDES, PORT_CHARACTER, SHORT
from explorer.view.base.markup import Markup, element
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
    # Live edges last, so that a segment shared by a ghost's edge and a live one is drawn as live.
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
    """Draw the edges, first the ones that end in an arrow head, whose marker has the id ``marker``."""
    drawn: dict[bool, list[Markup]] = {True: [], False: []}
    for segment, is_alive in segments:
        look = "declined" if segment.key in declined else None if is_alive else "gone"
        drawn[segment.arrow].append(element("path", d=path(segment.points), class_=look))
    # A marker is inherited, so it is set once on the group instead of on each path.
    with_head = element("g", *drawn[True], class_="edge", marker_end=f"url(#{marker})")
    return [with_head, *([element("g", *drawn[False], class_="edge")] if drawn[False] else [])]


def crosses(segments: list[tuple[Segment, bool]], declined: Collection[Key]) -> list[Markup]:
    """Draw the ✗ of the declined edges, which later parts of a picture must not cover."""
    drawn = [
        element("path", d=cross(segment.points), class_="declined")
        for segment, _ in segments
        if segment.key in declined and segment.arrow
    ]
    return [element("g", *drawn, class_="edge")] if drawn else []


def cross(points: list[int]) -> str:
    """Return the SVG path of the ✗ of a route.

    It is in the middle, for an even number of curves at the middle joint. On a route over a small height, it is near
    the start, because the title of a kernel may be over the end.
    """
    curves = (len(points) - 2) // 6
    if abs(points[-1] - points[1]) < SHORT:
        start, weights = 0, (64, 48, 12, 1)
    else:
        start, weights = 6 * ((curves - 1) // 2), (1, 3, 3, 1) if curves % 2 else (0, 0, 0, 1)
    xs, ys = points[start : start + 8 : 2], points[start + 1 : start + 8 : 2]
    # The point of a cubic Bézier curve at parameter 1/5, 1/2 or 1.
    x, y = [sum(map(mul, weights, values)) // sum(weights) for values in (xs, ys)]
    return f"M{x - 5} {y - 5}l10 10m0-10l-10 10"


def port_labels(segments: list[tuple[Segment, bool]], direction: Direction) -> list[Markup]:
    """Draw the port names of layers next to the edges that end at them, each once per position.

    The names of several edges that end at one position are to the left or right of it, like their edges. A name is to
    the left of its edge if the next edge to the right is so near that the name would touch it. If values flow to the
    right, a name is drawn along its edge, and omitted if the edge is level and shorter
    (static/canvas/port_names.js).
    """
    down = direction == "down"
    starts: dict[tuple[int, int], dict[str, int]] = {}
    ends: dict[tuple[int, int], dict[str, int]] = {}
    spaces: dict[tuple[bool, int, int], float] = {}
    for segment, _ in segments:
        x0, y0, *_, x1, y1 = segment.points
        first, last = segment.names
        space = inf if down or abs(y1 - y0) >= LEVEL else x1 - x0
        if first and not (last and PORT_CHARACTER * len(first + last) + 2 * PORT_BESIDES > space):
            starts.setdefault((x0, y0), {}).setdefault(first, x0 if down else y0)
            spaces[False, x0, y0] = min(space, spaces.get((False, x0, y0), space))
        if last:
            ends.setdefault((x1, y1), {}).setdefault(last, x0 if down else y0)
            spaces[True, x1, y1] = min(space, spaces.get((True, x1, y1), space))
    drawn = []
    for (x, y), names in starts.items():
        text = ", ".join(names)
        if _fits(text, spaces[False, x, y]):
            drawn.append(_port(text, x + 5, y + 10 if down else y - 4))
    for (x, y), names in ends.items():
        ordered = sorted(names, key=names.__getitem__)
        half = len(ordered) if down and len(ordered) == 1 and _touches(x, y, ordered[0], ends) else len(ordered) // 2
        before, after = (", ".join(part) for part in (ordered[:half], ordered[half:]))
        if before and _fits(before, spaces[True, x, y]):
            drawn.append(_port(before, *((x - 5, y - 5) if down else (x - 9, y - 4)), "text-anchor:end"))
        if after and _fits(after, spaces[True, x, y]):
            position = (x + 5, y - 5, None) if down else (x - 9, y + 9 if before else y - 4, "text-anchor:end")
            drawn.append(_port(after, *position))
    return drawn


def _touches(x: int, y: int, text: str, ends: Collection[tuple[int, int]]) -> bool:
    """Return whether a name to the right of an edge's end would touch the end of the next edge."""
    return any(other_y == y and 0 < other_x - x < PORT_CHARACTER * len(text) + 5 for other_x, other_y in ends)


def _fits(text: str, space: float) -> bool:
    """Return whether a name is no longer than the level edge along which it is drawn."""
    return PORT_CHARACTER * len(text) + PORT_BESIDES < space


def _port(text: str, x: int, y: int, style: str | None = None) -> Markup:
    return element("text", text, x=x, y=y, class_="port", style=style)


def edge_labels(model: Model, scene: Scene, state: State, segments: list[tuple[Segment, bool]]) -> list[Markup]:
    """Draw the types of values next to edges with space for a label; edges with a declined fusion have a ✗ there."""
    live = {segment.key for segment, is_alive in segments if is_alive}
    drawn = []
    declined = declined_keys(model, state)
    for label in scene.labels:
        node = state.shown.get(label.slot, -1)
        if node >= 0 and label.key in live and label.key not in declined:
            row = model.slot_texts[label.slot][model.slots.nodes[label.slot].index(node)]
            text = model.texts[row][1]
            wide = ceil(font.width(text, PORT) / 2) * 2
            left, top, right, bottom = label_rect(*label.point, label.side, wide, scene.direction)
            drawn.append(element("text", text, x=(left + right) // 2, y=(top + bottom) // 2 + 3, class_="label"))
    return drawn


def path(points: list[int]) -> str:
    """Return control points as an SVG path, relative to the start of each curve, which takes fewer digits."""
    x, y = points[:2]
    steps: list[int] = []
    for start in range(2, len(points), 6):
        curve = points[start : start + 6]
        steps += [value - (y if index % 2 else x) for index, value in enumerate(curve)]
        x, y = curve[4:]
    # A minus sign also separates two numbers.
    numbers = "".join(f"{step}" if index == 0 or step < 0 else f" {step}" for index, step in enumerate(steps))
    return f"M{points[0]} {points[1]}c{numbers}"
