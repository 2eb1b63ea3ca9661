"""Repeated blocks without scopes: equal consecutive segments of a long graph.

The graph is cut at each point with only one live value, as in a chain, or before and after a residual block. The items
between two cuts are a segment. Equal consecutive segments, or series of segments, are blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from explorer.view.tree.box_tree import BoxItem
from explorer.view.tree.structural_hash import Structure

_OPERATIONS = 3
"""minimum operations of a block"""
_PAIR_OPERATIONS = 8
"""minimum operations of a block that occurs only twice"""
_PERIODS = 8
"""number of periods tried at each segment"""


class _Segment(NamedTuple):
    """Operations between two cuts, as a range of positions in the order, and their structure."""

    first: int
    end: int
    structure: int


def repeated(
    items: Sequence[BoxItem],
    edges: Sequence[tuple[int, int]],
    order: Sequence[int],
    leaves: Collection[int],
    structure: Structure,
) -> list[list[list[int]]]:
    """Return series of equal blocks, as indices of ``items``; a leaf belongs to the only block that reads it.

    ``order`` lists the items topologically.
    """
    operations = [item for item in order if item not in leaves]
    position_of = {item: position for position, item in enumerate(operations)}
    reads: list[list[int]] = [[] for _ in operations]
    readers: dict[int, set[int]] = {leaf: set() for leaf in leaves}
    last_use = [-1] * len(operations)
    for tail, head in edges:
        if tail in leaves and head >= 0:
            readers[tail].add(position_of[head])
        elif min(tail, head) >= 0:
            reads[position_of[head]].append(position_of[tail])
            last_use[position_of[tail]] = max(last_use[position_of[tail]], position_of[head])
    segments = _segments(items, operations, reads, last_use, readers, structure)
    block_of = [-1] * len(operations)
    series: list[list[list[int]]] = []
    count = 0
    for start, period, times in _tandem(segments):
        blocks = []
        for repetition in range(times):
            first = segments[start + repetition * period].first
            end = segments[start + (repetition + 1) * period - 1].end
            block_of[first:end] = [count] * (end - first)
            count += 1
            blocks.append(operations[first:end])
        series.append(blocks)
    flat = [block for blocks in series for block in blocks]
    # A weight shared by two blocks belongs to neither, since the blocks would otherwise read each other.
    for leaf, reading in readers.items():
        inside = {block_of[position] for position in reading}
        if len(inside) == 1 and inside != {-1}:
            flat[inside.pop()].append(leaf)
    for block in flat:
        block.sort()
    return series


def _segments(
    items: Sequence[BoxItem],
    operations: Sequence[int],
    reads: Sequence[Sequence[int]],
    last_use: Sequence[int],
    readers: dict[int, set[int]],
    structure: Structure,
) -> list[_Segment]:
    """Cut the operations at each point with at most one live value."""
    weights: list[list[int]] = [[] for _ in operations]
    for leaf, reading in readers.items():
        for position in reading:
            weights[position].append(structure.of(items[leaf]))
    dying = [0] * (len(operations) + 1)
    for use in last_use:
        dying[use] += use >= 0
    segments, first, alive = [], 0, 0
    for position in range(len(operations)):
        alive += (last_use[position] >= 0) - dying[position]
        # With more than one live value, a cut would separate related values, such as a residual and its sum.
        if alive > 1 and position + 1 < len(operations):
            continue
        key = tuple(
            (structure.of(items[operations[at]]), tuple(sorted(at - r for r in reads[at])), tuple(sorted(weights[at])))
            for at in range(first, position + 1)
        )
        segments.append(_Segment(first, position + 1, structure.number(key)))
        first = position + 1
    return segments


def _tandem(segments: Sequence[_Segment]) -> list[tuple[int, int, int]]:
    """Return series of equal segments as (first segment, segments per block, number of blocks), from left to right."""
    values = [segment.structure for segment in segments]
    following: dict[int, list[int]] = {}
    for position in range(len(values) - 1, -1, -1):
        following.setdefault(values[position], []).append(position)
    series, start = [], 0
    while start < len(values):
        later = following[values[start]]
        # Positions were entered from the end, so the last in the list is this segment itself.
        later.pop()
        best = (0, 0, 0)
        for other in later[: -_PERIODS - 1 : -1]:
            period = other - start
            end = other
            while end < len(values) and values[end] == values[end - period]:
                end += 1
            times = (end - start) // period
            operations = segments[start + period - 1].end - segments[start].first
            if operations >= (_OPERATIONS if times > 2 else _PAIR_OPERATIONS) and times > 1:
                # Prefer the most segments, then the shortest period: four blocks rather than two pairs of blocks.
                best = max(best, (times * period, -period, times))
        if best[2]:
            series.append((start, -best[1], best[2]))
        for passed in range(start + 1, start + max(1, best[0])):
            following[values[passed]].pop()
        start += max(1, best[0])
    return series
