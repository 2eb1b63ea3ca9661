"""Offsets in the arena: buffers side by side, or results packed where that takes less memory.

Buffers side by side are the simple answer, in which a result stays in one buffer for its life. Packing gives up that
picture, and is taken only where it saves bytes. Either way an offset is a multiple of a cache line, since sizes are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from explorer.plan.memory.buffer_assignment import BufferAssignment
from explorer.plan.schedule.schedule import OrderedKernels, align_up

_MEETINGS = 200_000
"""pairs of results alive at one moment, on top of eight a kernel, up to which results are packed; gaps among more take
too long to find"""


class Offsets(NamedTuple):
    """Offsets of results and scratch memory, as columns by the number of the kernel; −1 where there is none."""

    buffers: list[int]
    results: list[int]
    scratch: list[int]
    sizes: tuple[int, ...]
    """bytes of each buffer"""
    arena: int


def side_by_side(assignment: BufferAssignment) -> Offsets:
    """Lay the buffers one after the other, and the slots for scratch memory behind them."""
    sizes = assignment.sizes
    starts = [0, *itertools.accumulate([*sizes, *assignment.scratch_sizes])]
    results = [starts[buffer] if buffer >= 0 else -1 for buffer in assignment.buffers]
    scratch = [starts[len(sizes) + slot] if slot >= 0 else -1 for slot in assignment.scratch_slots]
    return Offsets(assignment.buffers, results, scratch, tuple(sizes), starts[-1])


def packed(ordered: OrderedKernels, assignment: BufferAssignment, below: int) -> Offsets | None:
    """Lay results and scratch memory wherever they fit; None where that takes ``below`` bytes or more, or too long.

    Results that begin at one offset share a buffer, whose number is that of the first of them.
    """
    spans: list[list[int]] = []
    span_of_kernel: list[tuple[int, int]] = []
    span_of_scratch: list[tuple[int, int]] = []
    span_of: dict[int, int] = {}
    """uid of a result → its span; what is written over an operand continues the operand's span"""
    for index, kernel in enumerate(ordered.kernels):
        if assignment.buffers[index] >= 0:
            reuses = assignment.reuses[index]
            if reuses is None:
                span = len(spans)
                spans.append([assignment.needs[kernel.result.uid], index, index])
            else:
                span = span_of[reuses.uid]
            span_of[kernel.result.uid] = span
            span_of_kernel.append((index, span))
        if kernel.cost.scratch:
            span_of_scratch.append((index, len(spans)))
            spans.append([align_up(kernel.cost.scratch), index, ordered.runs_until[index]])
        # The span of a chain of results, each written over the one before, ends where the last of them is freed.
        for node in assignment.frees[index]:
            if node.uid in span_of:
                spans[span_of[node.uid]][2] = index
    packing = pack([Span(*span) for span in spans], _MEETINGS + 8 * len(ordered.kernels))
    # Side by side is easier to follow, so packing must save something.
    if packing is None or packing[1] >= below:
        return None
    offsets, arena = packing
    buffers, results, scratch = [[-1] * len(ordered.kernels) for _ in range(3)]
    numbers: dict[int, int] = {}
    sizes: list[int] = []
    for index, span in span_of_kernel:
        results[index] = offsets[span]
        buffer = buffers[index] = numbers.setdefault(offsets[span], len(numbers))
        if buffer == len(sizes):
            sizes.append(0)
        sizes[buffer] = max(sizes[buffer], spans[span][0])
    for index, span in span_of_scratch:
        scratch[index] = offsets[span]
    return Offsets(buffers, results, scratch, tuple(sizes), arena)


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
