"""Offsets in the arena: buffers side by side, or results packed where that takes less memory.

Buffers side by side are the simple answer, in which a result stays in one buffer for its life. Packing gives up that
picture, and is taken only where it saves bytes. Either way an offset is a multiple of a cache line, since sizes are.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from explorer.plan.memory.arena import Span, pack
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
