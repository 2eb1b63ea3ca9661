"""Direction of a picture: values flow down or to the right.

Graphs are laid out and composed as if values flowed down. If values flow to the right, both axes are exchanged in the
sizes of items and in the result. A page is not folded; a static picture to the right is cut into rows, like text
(assets/decisions/0019).
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.record.view_choices import DIRECTIONS, Direction


def check_direction(direction: str) -> Direction:
    """Return a valid direction; raise ValueError for any other string."""
    for known in DIRECTIONS:
        if direction == known:
            return known
    raise ValueError(f"direction {direction!r} is not one of {', '.join(DIRECTIONS)}")


def other(direction: Direction) -> Direction:
    """Return the other direction."""
    return "right" if direction == "down" else "down"


def exchanged(points: Sequence[int], direction: Direction) -> list[int]:
    """Exchange x and y of points and sizes, listed as x, y, x, y, …, if values flow to the right."""
    if direction == "down":
        return [*points]
    return [value for pair in zip(points[1::2], points[::2], strict=True) for value in pair]
