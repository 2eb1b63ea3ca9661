"""Model of a recording with its layout, and the choice of initially open boxes: as many levels as are legible."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from explorer.record import Recording
from explorer.record.gc_pause import gc_paused
from explorer.record.view_choices import Direction
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.placement import compose
from explorer.view.layout.recorded_parts import RecordedParts
from explorer.view.model.picture_model import Model, build_model
from explorer.view.tree.box_tree import BoxItem

Frame: TypeAlias = tuple[int, int, float]
"""width and height in px, and the minimum scale at which text is legible"""
CELL: Frame = 940, 405, 0.75
"""frame of a cell's canvas without its margins, in which a reader can zoom and open boxes"""
PAGE: Frame = 1120, 745, 0.75
"""frame of the canvas of a page in a window of 1440×900 px"""
_FEW = 4
"""number of visible items in a view below which a further level is open, even if a reader must then move the graph"""
_WHOLE, _MANY = 0.9, 40
"""fraction of the slots of a graph from which a closed box hides what the graph is, and the maximum number of visible
items up to which such a box is open, even if a reader must then move the graph"""
PICTURE: Frame = 780, 1200, 0.625
"""frame of a static picture in a column of text"""


@dataclass(frozen=True)
class PlacedModel:
    """Model of a picture with its layout, computed once and shared by all views of the recording."""

    model: Model
    layouts: Layouts
    """layouts for all steps, with space for everything that passes add"""
    recorded: Layouts
    """layouts for the positions before the first change, with only what the program recorded"""

    def at(self, position: int) -> Layouts:
        """Return the layouts for a position."""
        return self.recorded if position <= self.model.first_change else self.layouts

    def turned(self, direction: Direction) -> PlacedModel:
        """Return the model laid out in a direction."""
        if direction == self.layouts.direction:
            return self
        return _placed(self.model, direction)

    def open_boxes(self, frame: Frame = CELL, position: int = 0) -> set[int]:
        """Return the initially open boxes: as many levels of each graph as fit into a frame at a position.

        If a graph does not even fit with all boxes closed, all are closed. In a cell or a page, a level also stays open
        if fewer than ``_FEW`` items are visible without it, or if one closed box then hides nearly everything: an input
        and one box do not show what a model is.
        """
        layouts = self.at(position)
        with gc_paused():
            opened: set[int] = set()
            for outermost in self.model.tree.bodies:
                levels = _levels(self.model, outermost)
                while (
                    levels
                    and not (frame in (CELL, PAGE) and self._hides_the_graph(outermost, levels))
                    and not _fits(self.model, layouts, {box for level in levels for box in level}, outermost, frame)
                ):
                    levels.pop()
                opened.update([outermost], *levels)
            return opened

    def _hides_the_graph(self, outermost: int, levels: list[list[int]]) -> bool:
        """Return whether a graph no longer shows what it is if the boxes of its last open level are closed."""
        shown = self._visible(outermost, levels[:-1])
        if len(shown) < _FEW:
            return True
        if len(self._visible(outermost, levels)) > _MANY:
            return False
        sizes = [self._size(index) if table == "box" else 1 for table, index in shown]
        return max(sizes) >= _WHOLE * sum(sizes)

    def _visible(self, outermost: int, levels: list[list[int]]) -> list[BoxItem]:
        """Return the visible items of a graph if the boxes of some levels are open."""
        opened = {outermost}.union(*levels)
        items = [item for box in opened for item in self.model.tree.boxes[box].items]
        return [item for item in items if item.table != "box" or item.number not in opened]

    def _size(self, box: int) -> int:
        """Return the number of slots in a box and in the boxes in it."""
        boxes, inside = self.model.tree.boxes, [box]
        for index in inside:
            inside += [item.number for item in boxes[index].items if item.table == "box"]
        return sum(item.table == "slot" for index in inside for item in boxes[index].items)


def draw(recording: Recording, direction: Direction = "down", has_weights: bool = True) -> PlacedModel:
    """Build the model of a recording; boxes are laid out on first access.

    ``has_weights``: whether closed operators list the shapes of their weights.
    """
    with gc_paused():
        model = build_model(recording, has_weights)
        return _placed(model, direction)


def _placed(model: Model, direction: Direction) -> PlacedModel:
    if model.first_change < 0:
        layouts = Layouts(model, direction=direction)
        return PlacedModel(model, layouts, layouts)
    recorded = Layouts(model, direction=direction, recorded=RecordedParts(model))
    return PlacedModel(model, Layouts(model, direction=direction, before=recorded), recorded)


def _fits(model: Model, layouts: Layouts, opened: Collection[int], outermost: int, frame: Frame) -> bool:
    size = compose(model, layouts, opened, outermost).size
    return all(length * frame[2] <= limit for length, limit in zip(size, frame[:2], strict=True))


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
