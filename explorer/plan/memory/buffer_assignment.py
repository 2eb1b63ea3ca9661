"""Buffer assignment: a result overwrites an operand that is not read again, or uses the smallest free buffer that
fits.

The algorithm is best fit, in one pass over the ordered kernels: when a value is dead, its buffer is added to a sorted
list of free buffers. Buffers are numbered before offsets are chosen (plan/memory/arena.py), because a plan is easier to
understand and to compare if each result stays in one numbered buffer.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.types.device import cpu
from explorer.plan.schedule.schedule import Kernel, OrderedKernels, align_up, aligned_size


class BufferAssignment(NamedTuple):
    """Buffers and scratch slots of kernels, as lists indexed by kernel, and their sizes."""

    buffers: list[int]
    """buffer of the result; −1 for a view, and for a result whose memory is not in the arena"""
    reuses: list[Expr | None]
    """operand that the result overwrites, or None"""
    frees: list[tuple[Expr, ...]]
    """values that are dead after the kernel and all concurrent kernels have ended"""
    needs: dict[int, int]
    """uid of a result in a buffer → bytes that the result needs there"""
    sizes: list[int]
    """bytes of each buffer"""
    scratch_slots: list[int]
    """slot for scratch memory; −1 if the kernel needs none"""
    scratch_sizes: list[int]
    """bytes of each slot"""


def assign_buffers(
    ordered: OrderedKernels, kernel_of: Mapping[int, int], updates: Mapping[int, Expr]
) -> BufferAssignment:
    """Assign results to buffers and scratch memory to slots.

    ``kernel_of`` maps the uids of results to the indices of their kernels. It contains only results that need memory in
    the arena: no views, no constants, which are kept outside the arena, and no ``updates``, which overwrite a
    parameter.
    """
    kernels, runs_until = ordered.kernels, ordered.runs_until
    # Reading a view counts as reading the owner of its memory, so a buffer is free after the last view of it was read.
    owner_of, last_uses, returned = live_ranges(ordered)
    last_reads: dict[int, list[tuple[Expr, LastUse]]] = {}
    """kernel index → values whose memory it is the last to read"""
    for uid, use in last_uses.items():
        if uid in kernel_of and uid not in returned:
            last_reads.setdefault(use.reader, []).append((kernels[kernel_of[uid]].result, use))
    dying: dict[int, list[Expr]] = {}
    """kernel index → values that are dead after it has ended"""
    buffers = [-1] * len(kernels)
    reuses: list[Expr | None] = [None] * len(kernels)
    frees: list[tuple[Expr, ...]] = []
    sizes: list[int] = []
    needs: dict[int, int] = {}
    free: list[tuple[int, int]] = []
    freed_by: dict[int, int] = {}
    """chain → the buffer that it freed last; if chains run concurrently, the chain can reuse this buffer without
    waiting for others"""
    is_parallel = runs_until != tuple(range(len(kernels)))
    for index, kernel in enumerate(kernels):
        result, last = kernel.nodes[-1], last_reads.get(index, ())
        uid, overwritten = result.uid, None
        reuses[index] = updates.get(uid)
        is_temporary = uid in kernel_of and uid not in returned
        if is_temporary:
            if last:
                # Before this kernel begins, all other readers of the operand must have ended, not only begun.
                overwritable = [read for read, use in last if use.before < index]
                overwritten = _in_place(kernel, overwritable, owner_of, kernels, buffers, kernel_of)
            if overwritten is not None:
                reuses[index] = overwritten
                buffers[index] = buffers[kernel_of[overwritten.uid]]
                needs[uid] = needs[overwritten.uid]
            elif not isinstance(result.operation, Call) and result.type.device is cpu:
                # Exclude calls, because they return results of their body, and other devices, because they have their
                # own memory.
                size = needs[uid] = aligned_size(result.type)
                buffers[index] = _take_buffer(size, sizes, free, freed_by.get(ordered.chains[index], -1))
        # An overwritten operand is dead immediately. Its buffer becomes the result's buffer, and is not freed below.
        for read, use in last:
            dying.setdefault(index if read is overwritten else use.dead, []).append(read)
        if is_temporary and uid not in last_uses:
            dying.setdefault(runs_until[index], []).append(result)
        freed = tuple(dying.pop(index, ()))
        frees.append(freed)
        for node in freed:
            buffer = buffers[kernel_of[node.uid]]
            if node is not overwritten and buffer >= 0:
                # Sort by size, then by number, because the choice must not depend on the order in which buffers become
                # free.
                bisect.insort(free, (sizes[buffer], buffer))
                if is_parallel and node.uid in last_uses:
                    freed_by[ordered.chains[last_uses[node.uid].reader]] = buffer
    return BufferAssignment(buffers, reuses, frees, needs, sizes, *_assign_scratch(ordered))


def _assign_scratch(ordered: OrderedKernels) -> tuple[list[int], list[int]]:
    """Assign different slots for scratch memory to concurrent kernels; return the slots and their sizes."""
    slots = [-1] * len(ordered.kernels)
    sizes: list[int] = []
    until: list[int] = []
    for index, kernel in enumerate(ordered.kernels):
        if kernel.cost.scratch:
            # A linear search is sufficient, because there are only as many slots as concurrent kernels with scratch
            # memory.
            slot = next((slot for slot, end in enumerate(until) if end < index), len(sizes))
            if slot == len(sizes):
                sizes.append(0)
                until.append(0)
            sizes[slot], until[slot] = max(sizes[slot], align_up(kernel.cost.scratch)), ordered.runs_until[index]
            slots[index] = slot
    return slots, sizes


def _in_place(
    kernel: Kernel,
    dying: Sequence[Expr],
    owner_of: Mapping[int, Expr],
    kernels: Sequence[Kernel],
    buffers: Sequence[int],
    kernel_of: Mapping[int, int],
) -> Expr | None:
    """Return an operand in ``dying`` that the result can overwrite, or None; no other operand may be a view of it."""
    result = kernel.result
    if not dying or not result.operation.reuses_operand or not kernel.nodes[0].operation.elementwise:
        return None
    for read in dying:
        kernel_index = kernel_of[read.uid]
        is_same_format = kernels[kernel_index].channels_last == kernel.channels_last
        # If the types are equal, both have the same size, and each element is read before it is overwritten.
        if read.type is result.type and buffers[kernel_index] >= 0 and is_same_format:
            readers = [operand for operand in kernel.reads if owner_of.get(operand.uid, operand) is read]
            if len(readers) == 1 and readers[0] is read:
                return read
    return None


def _take_buffer(size: int, sizes: list[int], free: list[tuple[int, int]], preferred: int) -> int:
    """Return the smallest free buffer that fits, or a new buffer; among equal sizes, ``preferred`` is chosen."""
    best = bisect.bisect_left(free, (size, -1))
    if best < len(free):
        # Among equal sizes, prefer the buffer that this chain freed itself, because the chain can reuse it without
        # waiting.
        if preferred >= 0 and sizes[preferred] == free[best][0]:
            preferred_index = bisect.bisect_left(free, (sizes[preferred], preferred))
            if preferred_index < len(free) and free[preferred_index][1] == preferred:
                best = preferred_index
        return free.pop(best)[1]
    sizes.append(size)
    return len(sizes) - 1


class LastUse(NamedTuple):
    """End of a live range, as indices of kernels.

    If several kernels run concurrently, the last reader to begin need not be the last to end. After ``dead``, another
    result may use the memory. ``before`` determines whether the last reader may overwrite it.
    """

    reader: int
    """index of the last kernel that reads the memory"""
    dead: int
    """index of the last kernel that begins before all readers have ended"""
    before: int
    """index of the last kernel that begins before all readers except ``reader`` have ended; −1 if there are none"""


class LiveRanges(NamedTuple):
    """Live ranges of all values of a schedule."""

    owner_of: dict[int, Expr]
    """uid of a result → the node that owns its memory: the node itself, or for a view the viewed node"""
    last_uses: dict[int, LastUse]
    """uid of an owner → the end of its live range; nodes without readers are absent"""
    returned: set[int]
    """uids of owners whose memory contains a requested result; it is returned to the caller, so the memory stays
    live"""


def live_ranges(ordered: OrderedKernels) -> LiveRanges:
    """Return the owner of each value's memory, and the end of each owner's live range."""
    owner_of: dict[int, Expr] = {}
    uses: dict[int, list[int]] = {}
    """uid of an owner → the fields of its `LastUse`, up to the current kernel"""
    for index, (kernel, runs_until) in enumerate(zip(ordered.kernels, ordered.runs_until, strict=True)):
        reads, result = kernel.reads, kernel.nodes[-1]
        owner_of[result.uid] = owner_of.get(reads[0].uid, reads[0]) if reads and kernel.is_view else result
        for read in reads:
            owner = owner_of.get(read.uid)
            uid = read.uid if owner is None else owner.uid
            use = uses.get(uid)
            if use is None:
                uses[uid] = [index, runs_until, -1]
            # A kernel that reads two views of one value is only one reader, and does not precede itself.
            elif use[0] != index:
                dead = use[1]
                use[:] = index, runs_until if runs_until > dead else dead, dead
    last_uses = {uid: LastUse(*use) for uid, use in uses.items()}
    returned = {owner_of[root.uid].uid for root in ordered.roots if root.uid in owner_of}
    return LiveRanges(owner_of, last_uses, returned)
