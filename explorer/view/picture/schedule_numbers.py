"""Places in the schedule, next to kernels and closed boxes of a static picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.view.base.markup import Markup, element
from explorer.view.base.spacing import NUMBER_BESIDES
from explorer.view.layout.compose import Rect, Scene
from explorer.view.picture.kernel_outlines import Frame
from explorer.view.replay.state import State


def schedule_numbers(
    scene: Scene, state: State, frames: Sequence[Frame], places: Mapping[int, Rect], closed: Mapping[int, list[int]]
) -> list[Markup]:
    """Draw the place in the schedule to the left of each kernel, and of each closed box with some slots inside."""
    framed = {slot for frame in frames for slot in frame.slots}
    shown, numbers = state.shown, state.numbers
    rows: list[tuple[int, int, int, int, int]] = [
        (frame.number, frame.number, left, top, bottom - top)
        for frame in frames
        if frame.number
        for left, top, _, bottom in frame.shapes[:1]
    ]
    for slot, node in shown.items():
        if slot in places and slot not in framed and node in numbers:
            x, y, _, high = places[slot]
            rows.append((numbers[node], numbers[node], x, y, high))
    for box, inside in closed.items():
        if ranks := [numbers[shown[slot]] for slot in inside if shown[slot] in numbers]:
            x, y, _, high = scene.boxes[box]
            rows.append((min(ranks), max(ranks), x, y, high))
    # In the middle, or above the edges that arrive from the left.
    return [
        element(
            "text",
            f"{first:,}" if first == last else f"{first:,}–{last:,}",
            x=x - NUMBER_BESIDES,
            y=y + (high // 2 + 4 if scene.direction == "down" else 1),
            class_="number",
        )
        for first, last, x, y, high in rows
    ]
