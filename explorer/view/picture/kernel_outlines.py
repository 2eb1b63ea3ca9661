"""Outlines of fused kernels: one rectangle if it contains only nodes of the kernel, else a shape around each node.

scene/outlines.js is the counterpart in the browser.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from explorer.record import Group
from explorer.view.base import font
from explorer.view.base.markup import Markup, element
from explorer.view.layout.placement import Rect, Scene
from explorer.view.model.labels import TITLE, group_titles, title_within
from explorer.view.model.picture_model import Model
from explorer.view.replay.state import State

_KERNEL_PAD, _NODE_PAD = 10, 7
_INDENT = 2
"""px between a title and the left and right of its outline, whose border it must not cover"""
_LONGEST = 500
"""maximum number of characters in a tooltip"""


@dataclass(frozen=True, slots=True)
class Frame:
    """Outline of a kernel with several nodes; each shape has left, top, right, bottom."""

    group: Group
    number: int
    """1-based position in the schedule; 0 before scheduling"""
    shapes: tuple[Rect, ...]
    """from top to bottom, values that other kernels compute, too, last"""
    slots: tuple[int, ...]
    boxes: tuple[int, ...]
    """closed operators that hide nodes of the kernel"""


def frames(model: Model, scene: Scene, state: State, is_open: Collection[int]) -> list[Frame]:
    """Return the outlines of a scene's kernels; closed operators represent their nodes, other boxes hide them."""
    outlines, closed = [], closed_around(model, scene)
    occupied = state.shown.keys() | state.ghosts.keys()
    nonempty = {closed[model.tree.box_of[slot]] for slot in occupied} - {*is_open}
    for group, members in state.groups:
        slots = tuple(slot for slot in members if slot in scene.slots)
        hiding = [closed[model.tree.box_of[slot]] for slot in members if slot not in scene.slots]
        boxes = tuple(box for box in dict.fromkeys(hiding) if box >= 0 and model.tree.boxes[box].is_operator)
        # All nodes are hidden in boxes other than operators, or in a single operator, so nothing is left to outline.
        if not slots and (not boxes or set(hiding) == {boxes[0]}):
            continue
        rects = [*(scene.slots[slot] for slot in slots), *(scene.boxes[box] for box in boxes)]
        others = [rect for slot, rect in scene.slots.items() if slot not in slots and slot in occupied]
        others += [rect for box, rect in scene.boxes.items() if box in nonempty and box not in boxes]
        open_rects = [rect for box, rect in scene.boxes.items() if box in is_open]
        number = state.numbers.get(group.members[-1], 0)
        again = [slot in state.again for slot in slots] + [False] * len(boxes)
        outlines.append(Frame(group, number, _shapes(rects, others, open_rects, again), slots, boxes))
    return outlines


def frame_title(frame: Frame, sign: str) -> Markup:
    """Draw the title of a kernel above its outline; a title wider than the outline is shortened and has a tooltip."""
    left, top, right, _ = frame.shapes[0]
    titles = [title for title, _ in group_titles(frame.group)]
    if frame.number:
        titles = [f"kernel {frame.number:,} · {title}" for title in titles] + [f"kernel {frame.number:,}"]
    rows = [(title, font.width(title, TITLE, bold=True)) for title in [f"{sign}{title}" for title in titles]]
    title = title_within(rows, right - left - 2 * _INDENT)
    hint = [] if title == rows[0][0] else [element("title", frame.group.label[:_LONGEST])]
    return element("text", title, *hint, x=left + _INDENT, y=top - 5, class_="fused")


def closed_around(model: Model, scene: Scene) -> list[int]:
    """Return for each box the visible closed box that hides its contents, or −1."""
    boxes = model.tree.boxes
    hiding = [-1] * len(boxes)
    # From the outermost inwards, since the outermost closed box hides all its contents.
    for box in reversed(model.tree.postorder()):
        outer = boxes[box].parent
        hiding[box] = box if box in scene.boxes else hiding[outer] if outer >= 0 else -1
    return hiding


def enclosing(rects: Iterable[Rect], pad: int = _KERNEL_PAD) -> Rect:
    """Return the left, top, right and bottom of the padded bounding box of some rectangles."""
    rects = list(rects)
    return (
        min(x for x, _, _, _ in rects) - pad,
        min(y for _, y, _, _ in rects) - pad,
        max(x + wide for x, _, wide, _ in rects) + pad,
        max(y + high for _, y, _, high in rects) + pad,
    )


def _shapes(
    rects: list[Rect], others: list[Rect], open_rects: list[Rect], again: list[bool]
) -> tuple[Rect, ...]:  # fmt: skip
    """Return one shape, or one around each rectangle; values that other kernels compute, too, are last."""
    frame = enclosing(rects)
    if any(_touches(frame, rect) for rect in others) or any(_cuts(frame, rect) for rect in open_rects):
        shapes = sorted(
            zip(again, (enclosing([rect], _NODE_PAD) for rect in rects), strict=True),
            key=lambda row: (row[0], row[1][1], row[1][0]),
        )
        return tuple([shape for _, shape in shapes])
    return (frame,)


def _touches(frame: Rect, rect: Rect) -> bool:
    left, top, right, bottom = frame
    x, y, wide, high = rect
    return x < right and x + wide > left and y < bottom and y + high > top


def _cuts(frame: Rect, open_rect: Rect) -> bool:
    """Return whether a frame overlaps an open box without being inside it."""
    x, y, wide, high = open_rect
    inside = x <= frame[0] and y <= frame[1] and frame[2] <= x + wide and frame[3] <= y + high
    return not inside and _touches(frame, open_rect)
