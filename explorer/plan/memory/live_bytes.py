"""Bytes alive while each kernel runs, and the most of them at one moment, by where they lie.

The pass buffers asks after buffers are assigned and before offsets are. The most at one moment is the lower bound that
a recording shows, and tells whether packing could save anything at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from explorer.plan.memory.buffer_assignment import BufferAssignment
from explorer.plan.schedule.schedule import Kernel, OrderedKernels, align_up


class LiveBytes(NamedTuple):
    """Bytes alive in a run, at each kernel and at the worst moment of each sort of memory."""

    alive: list[int]
    """by the number of the kernel: results and working memory, wherever they lie"""
    most: int
    """the largest of these"""
    most_in_arena: int
    """results and scratch memory in the arena, as aligned sizes"""
    most_results: int
    """results with memory of their own"""
    most_working: int
    """working memory, scratch memory excluded"""
    all_results: int
    """results with memory of their own, if none of them were freed"""


def live_bytes(ordered: OrderedKernels, number_of: Mapping[int, int], assignment: BufferAssignment) -> LiveBytes:
    """Count what is alive at each kernel; ``number_of`` has the results that own memory, as in `assign_buffers`."""
    kernels, buffers, needs = ordered.kernels, assignment.buffers, assignment.needs
    alive: list[int] = []
    live = in_arena = own = all_results = working = 0
    most = most_in_arena = most_own = most_working = 0
    ending: dict[int, list[Kernel]] = {}
    """kernels with working memory, by the last kernel that begins before they end"""
    for index, kernel in enumerate(kernels):
        uid, cost, reuses = kernel.nodes[-1].uid, kernel.cost, assignment.reuses[index]
        # A result that is written over an operand takes no further memory.
        if reuses is None and uid in number_of:
            live += cost.bytes
            if buffers[index] >= 0:
                in_arena += needs[uid]
            else:
                own += cost.bytes
                all_results += cost.bytes
        if cost.workspace or cost.scratch:
            # Where kernels overlap, working memory of this one counts until the last kernel has begun that begins
            # before its end.
            ending.setdefault(ordered.runs_until[index], []).append(kernel)
            live += cost.workspace
            in_arena += align_up(cost.scratch)
            working += cost.workspace - cost.scratch
        # Before anything is freed: operands are alive while the kernel reads them.
        alive.append(live)
        most, most_in_arena = max(most, live), max(most_in_arena, in_arena)
        most_own, most_working = max(most_own, own), max(most_working, working)
        for ended in ending.pop(index, ()):
            live -= ended.cost.workspace
            in_arena -= align_up(ended.cost.scratch)
            working -= ended.cost.workspace - ended.cost.scratch
        for node in assignment.frees[index]:
            if node is not reuses:
                number = number_of[node.uid]
                live -= kernels[number].cost.bytes
                if buffers[number] >= 0:
                    in_arena -= needs[node.uid]
                else:
                    own -= kernels[number].cost.bytes
    return LiveBytes(alive, most, most_in_arena, most_own, most_working, all_results)
