"""Positions inside one open box."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.view.layout.edge_labels import EdgeLabel


@dataclass(frozen=True, slots=True)
class BoxLayout:
    """Layout of one open box whose child boxes are all closed, in px relative to the box; values flow down."""

    size: tuple[int, int]
    ports: tuple[tuple[int, ...], tuple[int, ...]]
    """x of each port at the top and at the bottom"""
    rects: list[list[int]]
    """x, y, width, height of each item; no width for an item outside the layout"""
    ranks: list[int]
    routes: list[list[int]]
    """control points of each of the box's edges, in the order of ``Model.ports.edges``; empty for a plain curve"""
    labels: list[EdgeLabel] = field(default_factory=list)

    def x(self, item: int, side: int, port: int) -> int:
        """Return the x coordinate of the middle of an item, or of a port of the border (item −1)."""
        return self.ports[side][port] if item < 0 else self.rects[item][0] + self.rects[item][2] // 2
