"""Arena: offsets in one piece of memory for spans that are in use from one moment to another.

This is dynamic storage allocation with known lifetimes, which is NP-hard; greedy orders come within a few percent of
the lower bound on the graphs of nets, and take milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Memory of ``size`` bytes, in use from the moment ``first`` to the moment ``last``, both included."""

    size: int
    first: int
    last: int


_QUICK, _NEAR = 20_000, 1.05
"""pairs of overlapping spans up to which all orders are tried; with more of them, an arena of at most 1.05 times the
lower bound ends the search"""


def pack(spans: Sequence[Span], limit: int) -> tuple[list[int], int] | None:
    """Return the offset of each span and the bytes of the arena, such that no two spans in use at one moment overlap.

    None where more than ``limit`` pairs of spans are in use at one moment. The best of three orders, each greedy: the
    next span takes the smallest gap between those already placed that it meets (Pisarchyk and Lee, Efficient Memory
    Management for Deep Neural Net Inference, 2020). The search ends at the lower bound, and near it where many spans
    meet.

    Example: ``pack([Span(64, 0, 1), Span(128, 1, 2), Span(64, 2, 3)], 100)`` is ``([128, 0, 128], 192)``.
    """
    meeting = _meetings(spans, limit)
    if meeting is None:
        return None
    # Each pair stands in two lists.
    quick = sum(map(len, meeting)) <= 2 * _QUICK
    enough = most_alive(spans) * (1.0 if quick else _NEAR)
    best: tuple[list[int], int] | None = None
    for key in _ORDERS:
        keys = [key(span) for span in spans]
        offsets, size = _greedy(spans, sorted(range(len(spans)), key=keys.__getitem__), meeting)
        if best is None or size < best[1]:
            best = offsets, size
        if size <= enough:
            break
    return best


def most_alive(spans: Iterable[Span]) -> int:
    """Return the bytes in use at the worst moment: no arrangement needs less."""
    change: dict[int, int] = {}
    for span in spans:
        change[span.first] = change.get(span.first, 0) + span.size
        # Both ends are in use, so it goes one moment later.
        change[span.last + 1] = change.get(span.last + 1, 0) - span.size
    alive = most = 0
    for moment in sorted(change):
        alive += change[moment]
        most = max(most, alive)
    return most


def _by_size(span: Span) -> tuple[int, ...]:
    return -span.size, span.first


def _by_area(span: Span) -> tuple[int, ...]:
    return -span.size * (span.last - span.first + 1), span.first


def _by_length(span: Span) -> tuple[int, ...]:
    return span.first - span.last, -span.size, span.first


_ORDERS: tuple[Callable[[Span], tuple[int, ...]], ...] = (_by_size, _by_area, _by_length)


def _meetings(spans: Sequence[Span], limit: int) -> list[list[int]] | None:
    """Return for each span those in use at a moment when it is; None where there are more than ``limit`` pairs."""
    meeting: list[list[int]] = [[] for _ in spans]
    alive: list[int] = []
    pairs = 0
    # A sweep over the beginnings, so that only spans that overlap in time are looked at, not all pairs.
    for index in sorted(range(len(spans)), key=lambda index: spans[index].first):
        first = spans[index].first
        alive = [other for other in alive if spans[other].last >= first]
        pairs += len(alive)
        if pairs > limit:
            return None
        for other in alive:
            meeting[other].append(index)
        meeting[index].extend(alive)
        alive.append(index)
    return meeting


def _greedy(spans: Sequence[Span], order: Sequence[int], meeting: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """Place spans one after the other, each into the smallest gap that fits; return offsets and the arena's bytes."""
    offsets = [-1] * len(spans)
    end = 0
    for index in order:
        size = spans[index].size
        # Gaps between spans that are placed, and in use at the same time, by offset; past all of them is always room.
        taken = sorted([(offsets[other], spans[other].size) for other in meeting[index] if offsets[other] >= 0])
        at, place, smallest = 0, -1, 0
        for start, length in taken:
            # Negative where placed spans overlap each other in offsets, which they may if they are not in use at one
            # time.
            gap = start - at
            if gap >= size and (place < 0 or gap < smallest):
                place, smallest = at, gap
            at = max(at, start + length)
        offsets[index] = place if place >= 0 else at
        end = max(end, offsets[index] + size)
    return offsets, end
