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
    producer = _only_deepest((head, tail, down[tail] if tail >= 0 else -1) for tail, head in edges)
    reader = _only_deepest((tail, head, up[head] if head >= 0 else -1) for tail, head in edges)
    return {(tail, head) for tail, head in edges if producer.get(head) == tail and reader.get(tail) == head}


def _only_deepest(rows: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Return for each end of edges the other end that is deeper than all others, where there is one."""
    deepest: dict[int, tuple[int, list[int]]] = {}
    for end, other, depth in rows:
        most, others = deepest.get(end, (-2, []))
        if depth >= most:
            deepest[end] = depth, [*(others if depth == most else ()), other]
    return {end: others[0] for end, (_, others) in deepest.items() if len(others) == 1}
