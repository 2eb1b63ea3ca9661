"""Offsets in the arena: buffers are placed side by side, or results are packed if this takes less memory.

Side by side is easier to understand, because a result stays in one buffer, so packing is used only if it saves bytes.
Offsets are multiples of a cache line, because sizes are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from explorer.plan.memory.buffer_assignment import BufferAssignment
from explorer.plan.schedule.schedule import OrderedKernels, align_up

_MAX_OVERLAPS = 200_000
"""results are packed only if there are at most this many pairs of simultaneously live results, plus eight for each
kernel; with more pairs, finding gaps takes too long"""


class Offsets(NamedTuple):
    """Offsets of results and scratch memory: lists indexed by kernel; −1 if there is none."""

    buffers: list[int]
    results: list[int]
    scratch: list[int]
    sizes: tuple[int, ...]
    """bytes of each buffer"""
    arena: int


def side_by_side(assignment: BufferAssignment) -> Offsets:
    """Place the buffers one after another, followed by the slots for scratch memory."""
    sizes = assignment.sizes
    starts = [0, *itertools.accumulate([*sizes, *assignment.scratch_sizes])]
    results = [starts[buffer] if buffer >= 0 else -1 for buffer in assignment.buffers]
    scratch = [starts[len(sizes) + slot] if slot >= 0 else -1 for slot in assignment.scratch_slots]
    return Offsets(assignment.buffers, results, scratch, tuple(sizes), starts[-1])


def packed(ordered: OrderedKernels, assignment: BufferAssignment, limit_bytes: int) -> Offsets | None:
    """Place results and scratch memory at any offset where they fit.

    Returns None if this takes ``limit_bytes`` or more, or if there are too many simultaneously live results. Results at
    the same offset get the same buffer number.
    """
    spans: list[list[int]] = []
    span_of_kernel: list[tuple[int, int]] = []
    span_of_scratch: list[tuple[int, int]] = []
    span_of: dict[int, int] = {}
    """uid of a result → index of its span; a result that overwrites an operand has the operand's span"""
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
        # If each result of a chain overwrites the previous one, the span ends when the last result is freed.
        for node in assignment.frees[index]:
            if node.uid in span_of:
                spans[span_of[node.uid]][2] = index
    packing = pack([Span(*span) for span in spans], _MAX_OVERLAPS + 8 * len(ordered.kernels))
    # Buffers side by side are easier to understand, so packing must save memory.
    if packing is None or packing[1] >= limit_bytes:
        return None
    offsets, arena = packing
    buffers, results, scratch = [[-1] * len(ordered.kernels) for _ in range(3)]
    buffer_at: dict[int, int] = {}
    sizes: list[int] = []
    for index, span in span_of_kernel:
        results[index] = offsets[span]
        buffer = buffers[index] = buffer_at.setdefault(offsets[span], len(buffer_at))
        if buffer == len(sizes):
            sizes.append(0)
        sizes[buffer] = max(sizes[buffer], spans[span][0])
    for index, span in span_of_scratch:
        scratch[index] = offsets[span]
    return Offsets(buffers, results, scratch, tuple(sizes), arena)


class Span(NamedTuple):
    """Memory of ``size`` bytes that is in use from kernel ``first`` to kernel ``last``, both included."""

    size: int
    first: int
    last: int


_MAX_EXHAUSTIVE, _TOLERANCE = 20_000, 1.05
"""all orders are tried if there are at most this many pairs of overlapping spans; with more pairs, the search stops at
the first arena of at most 1.05 times the lower bound"""


def pack(spans: Sequence[Span], limit: int) -> tuple[list[int], int] | None:
    """Return the offset of each span, and the size of the smallest arena that was found.

    Spans that are in use simultaneously do not overlap. Returns None if more than ``limit`` pairs of spans are in use
    simultaneously. The result is the best of three greedy layouts. In each layout, spans are placed one after another;
    each span is placed in the smallest gap between already placed spans that are in use at the same time (Pisarchyk and
    Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). The search stops at the lower bound, or near
    it if many spans overlap.

    Example: ``pack([Span(64, 0, 1), Span(128, 1, 2), Span(64, 2, 3)], 100)`` is ``([128, 0, 128], 192)``.
    """
    overlaps = _overlaps(spans, limit)
    if overlaps is None:
        return None
    # Each pair is in the lists of both spans.
    is_exhaustive = sum(map(len, overlaps)) <= 2 * _MAX_EXHAUSTIVE
    target_size = peak_bytes(spans) * (1.0 if is_exhaustive else _TOLERANCE)
    best: tuple[list[int], int] | None = None
    for key in _ORDERS:
        keys = [key(span) for span in spans]
        offsets, size = _greedy(spans, sorted(range(len(spans)), key=keys.__getitem__), overlaps)
        if best is None or size < best[1]:
            best = offsets, size
        if size <= target_size:
            break
    return best


def peak_bytes(spans: Iterable[Span]) -> int:
    """Return the maximum number of bytes in use at any time; no arena can be smaller."""
    change_at: dict[int, int] = {}
    for span in spans:
        change_at[span.first] = change_at.get(span.first, 0) + span.size
        # ``last`` is included, so the memory is free one moment later.
        change_at[span.last + 1] = change_at.get(span.last + 1, 0) - span.size
    live = peak = 0
    for moment in sorted(change_at):
        live += change_at[moment]
        peak = max(peak, live)
    return peak


def _by_size(span: Span) -> tuple[int, ...]:
    return -span.size, span.first


def _by_area(span: Span) -> tuple[int, ...]:
    return -span.size * (span.last - span.first + 1), span.first


def _by_length(span: Span) -> tuple[int, ...]:
    return span.first - span.last, -span.size, span.first


_ORDERS: tuple[Callable[[Span], tuple[int, ...]], ...] = (_by_size, _by_area, _by_length)


def _overlaps(spans: Sequence[Span], limit: int) -> list[list[int]] | None:
    """Return for each span the spans that are in use at the same time; None if there are more than ``limit`` pairs."""
    overlaps: list[list[int]] = [[] for _ in spans]
    alive: list[int] = []
    pairs = 0
    # Process spans in the order of their start, so that only spans that overlap in time are compared, not all pairs.
    for index in sorted(range(len(spans)), key=lambda index: spans[index].first):
        first = spans[index].first
        alive = [other for other in alive if spans[other].last >= first]
        pairs += len(alive)
        if pairs > limit:
            return None
        for other in alive:
            overlaps[other].append(index)
        overlaps[index].extend(alive)
        alive.append(index)
    return overlaps


def _greedy(spans: Sequence[Span], order: Sequence[int], overlaps: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """Place spans one after another in the smallest gap that fits; return offsets and the arena's size in bytes."""
    offsets = [-1] * len(spans)
    end = 0
    for index in order:
        size = spans[index].size
        # Find the gaps between placed spans that are in use at the same time; after the last one there is always space.
        occupied = sorted([(offsets[other], spans[other].size) for other in overlaps[index] if offsets[other] >= 0])
        gap_start, chosen_start, smallest_gap = 0, -1, 0
        for start, length in occupied:
            # The gap is negative if two placed spans overlap, which is possible if those two are not in use
            # simultaneously.
            gap = start - gap_start
            if gap >= size and (chosen_start < 0 or gap < smallest_gap):
                chosen_start, smallest_gap = gap_start, gap
            gap_start = max(gap_start, start + length)
        offsets[index] = chosen_start if chosen_start >= 0 else gap_start
        end = max(end, offsets[index] + size)
    return offsets, end
