"""Trunks: chains of items that are drawn as straight lines, each item centred below its producer.

Dot prefers to straighten edges that pass ranks, and bends the short edges of a chain around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.view.tree.topological import ranks


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
