"""An arena: where in one piece of memory things lie that live from one moment to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Memory of ``size`` bytes, in use from the moment ``first`` to the moment ``last``, both included."""

    size: int
    first: int
    last: int


_QUICK, _NEAR = 20_000, 1.05
"""where more pairs than so many meet, so many times the least memory is not worth another order"""


def pack(spans: Sequence[Span], limit: int) -> tuple[list[int], int] | None:
    """The offset of each span and the bytes of the arena, such that no two spans in use at one moment overlap.

    None where more than ``limit`` pairs meet. The best of three orders, each greedy: the next span takes the smallest
    gap between those already placed that it meets (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
    Inference, 2020). The least that there can be ends the search, and where many spans meet, what comes near to it.
    """
    meeting = _meetings(spans, limit)
    if meeting is None:
        return None
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
    """The bytes in use at the worst moment: no arrangement needs less."""
    change: dict[int, int] = {}
    for span in spans:
        change[span.first] = change.get(span.first, 0) + span.size
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
    """For each span those that are in use at a moment when it is; None where there are more than ``limit`` pairs."""
    found: list[list[int]] = [[] for _ in spans]
    alive: list[int] = []
    pairs = 0
    for index in sorted(range(len(spans)), key=lambda index: spans[index].first):
        first = spans[index].first
        alive = [other for other in alive if spans[other].last >= first]
        pairs += len(alive)
        if pairs > limit:
            return None
        for other in alive:
            found[other].append(index)
        found[index].extend(alive)
        alive.append(index)
    return found


def _greedy(spans: Sequence[Span], order: Sequence[int], meeting: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    offsets = [-1] * len(spans)
    end = 0
    for index in order:
        size = spans[index].size
        taken = sorted([(offsets[other], spans[other].size) for other in meeting[index] if offsets[other] >= 0])
        at, place, smallest = 0, -1, 0
        for start, length in taken:
            gap = start - at
            if gap >= size and (place < 0 or gap < smallest):
                place, smallest = at, gap
            at = max(at, start + length)
        offsets[index] = place if place >= 0 else at
        end = max(end, offsets[index] + size)
    return offsets, end
