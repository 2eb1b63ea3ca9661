"""Input and output of layout engines: a graph of sized items, and their coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from explorer.view.tree.topological import ranks

GAP, RANK_GAP = 36, 42
"""px between items of a rank (space for a node's number) and between ranks (space for a group's title)"""


@dataclass(frozen=True, slots=True)
class LayoutGraph:
    """Input of a layout engine; it contains no names."""

    sizes: tuple[tuple[int, int], ...]
    """width and height of each item in px"""
    boxes: frozenset[int]
    """items that are boxes: edges meet at the middle of their top and bottom"""
    edges: tuple[tuple[int, int], ...]
    """(from item, to item); −1 − p is port p of the border: of the top as a start, of the bottom as an end"""
    groups: tuple[tuple[int, ...], ...] = ()
    """items kept together, below a title"""
    order: tuple[tuple[int, ...], tuple[int, ...]] = ((0,), (0,))
    """ports at the top and at the bottom, from left to right"""
    growing: frozenset[int] = frozenset()
    """boxes that are much larger when they are open: routes around them are prepared for it"""
    title: int = 0
    """width in px of the title above everything"""


@dataclass(frozen=True, slots=True)
class Placed:
    """Output of a layout engine, in px, x to the right, y down."""

    size: tuple[int, int]
    centres: list[tuple[int, int]]
    routes: list[list[int]]
    """x0, y0, x1, y1, … cubic Bézier control points of each edge, 3n + 1 of them; none for a plain curve"""
    ports: tuple[list[int], list[int]]
    """x of each port at the top, where edges enter, and at the bottom, where they leave; at least one on each side"""


class LayoutEngine(Protocol):
    """Engine that places the items of one graph."""

    def place(self, graph: LayoutGraph) -> Placed:
        """Return the coordinates of all items and edges."""
        ...


def trunk(count: int, edges: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the edges of the trunks of a graph: at most one into each item, and one out of it.

    ``edges`` are those of a LayoutGraph, of which negative ends are ports of the border. An edge belongs to a trunk if
    its producer is deeper than every other producer of its reader, and more items follow behind its reader than behind
    every other reader of its producer. So the only producer and the only reader of each other share a trunk, and
    operands of equal depth stand symmetrically.
    """
    down = ranks(count, edges)
    up = ranks(count, [(head, tail) for tail, head in edges])
    producer = _only_deepest([(head, tail) for tail, head in edges], down)
    reader = _only_deepest(edges, up)
    return {(tail, head) for tail, head in edges if producer.get(head) == tail and reader.get(tail) == head}


def _only_deepest(edges: Iterable[tuple[int, int]], depths: Sequence[int]) -> dict[int, int | None]:
    """Return for the first end of each edge the other end that is deeper than all others, None where several are."""
    deepest: dict[int, int | None] = {}
    most: dict[int, int] = {}
    for end, other in edges:
        depth = depths[other] if other >= 0 else -1
        known = most.get(end, -2)
        if depth > known:
            most[end], deepest[end] = depth, other
        elif depth == known:
            deepest[end] = None
    return deepest
