"""Model of a recording with its layout, and the choice of initially open boxes: as many levels as are legible."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from explorer.record import Recording
from explorer.record.gc_pause import gc_paused
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.direction import Direction
from explorer.view.layout.placement import compose
from explorer.view.model.picture_model import Model, build_model

Frame: TypeAlias = tuple[int, int, float]
"""width and height in px, and the minimum scale at which text is legible"""
CELL: Frame = 940, 405, 0.6
"""frame of a cell's canvas without its margins, in which a reader can zoom and open boxes"""
PICTURE: Frame = 780, 1200, 0.625
"""frame of a static picture in a column of text"""


@dataclass(frozen=True)
class PlacedModel:
    """Model of a picture with its layout, computed once and shared by all views of the recording."""

    model: Model
    layouts: Layouts

    def turned(self, direction: Direction) -> PlacedModel:
        """Return the model laid out in a direction."""
        if direction == self.layouts.direction:
            return self
        return PlacedModel(self.model, Layouts(self.model, direction=direction))

    def open_boxes(self, frame: Frame = CELL) -> set[int]:
        """Return the initially open boxes: as many levels of each graph as fit into a frame.

        If a graph does not even fit with all boxes closed, all are closed.
        """
        with gc_paused():
            opened: set[int] = set()
            for outermost in self.model.tree.bodies:
                levels = _levels(self.model, outermost)
                while levels and not self._fits({box for level in levels for box in level}, outermost, frame):
                    levels.pop()
                opened.update([outermost], *levels)
            return opened

    def _fits(self, opened: Collection[int], outermost: int, frame: Frame) -> bool:
        size = compose(self.model, self.layouts, opened, outermost).size
        return all(length * frame[2] <= limit for length, limit in zip(size, frame[:2], strict=True))


def draw(recording: Recording, direction: Direction = "down") -> PlacedModel:
    """Build the model of a recording; boxes are laid out on first access."""
    with gc_paused():
        model = build_model(recording)
        return PlacedModel(model, Layouts(model, direction=direction))


def _levels(model: Model, outermost: int) -> list[list[int]]:
    """Return the boxes of a graph that may be open, by depth, outermost first."""
    levels: list[list[int]] = []
    parents = [outermost]
    while parents:
        items = [item for parent in parents for item in model.tree.boxes[parent].items]
        parents = [index for table, index in items if table == "box" and model.tree.boxes[index].open]
        if parents:
            levels.append(parents)
    return levels
