"""A recording with a place for everything: found once, for all the pictures of it that stand side by side."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.record import Recording
from explorer.record.gc_pause import uncollected
from explorer.view.layout.box_layout import Layouts
from explorer.view.model.model import Model, build_model


@dataclass(frozen=True, slots=True)
class Drawing:
    """What there is to draw, and where."""

    model: Model
    layouts: Layouts


def draw(recording: Recording) -> Drawing:
    """Find what there is to draw in a recording; its boxes are placed when they are looked at."""
    with uncollected():
        model = build_model(recording)
        return Drawing(model, Layouts(model))
