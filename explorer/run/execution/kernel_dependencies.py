"""Dependencies of kernels that run in parallel: values that they read, and memory that others still read.

Memory is planned for one order of kernels (plan/passes/buffers.py). In another order, a kernel that overwrites a value
waits for all readers of that value. So in any order each kernel reads the same values as in the planned order.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from explorer.core.ir.function import Call
from explorer.plan.schedule.schedule import Schedule, align_up, aligned_size
from explorer.run.execution.task_scheduler import Tasks

_LARGE = 50.0
"""estimated µs above which another thread is woken for ready tasks, since waking one takes as long"""
_APART = 10.0
"""estimated µs below which a kernel is mostly Python code, which holds the GIL"""


class ExecutionChains(NamedTuple):
    """Execution chains, which are kernels that run in sequence on one thread, and their dependencies."""

    kernels: list[list[int]]
    """kernels of each chain"""
    tasks: Tasks

    def is_chain_start(self, kernel: int) -> bool:
        """Return whether a kernel is the first of its chain, so that no kernel precedes it directly on its thread."""
        # The chains are in the order of their first kernels.
        at = bisect.bisect_left(self.kernels, kernel, key=itemgetter(0))
        return at < len(self.kernels) and self.kernels[at][0] == kernel

    def runtime_parent_count(self, chain: int) -> int:
        """Return the number of chains that must have run before a chain begins."""
        return self.tasks.needs[chain]


def chains(schedule: Schedule, waits: Sequence[set[int]]) -> ExecutionChains:
    """Join kernels into chains, if each kernel is the next one's only dependency and the next its only dependent."""
    users = [0] * len(waits)
    for before in waits:
        for dependency in before:
            users[dependency] += 1
    members_of: list[list[int]] = []
    chain_of: list[int] = []
    for index, before in enumerate(waits):
        only = next(iter(before)) if len(before) == 1 else -1
        if only >= 0 and users[only] == 1:
            chain_of.append(chain_of[only])
            members_of[chain_of[only]].append(index)
        else:
            chain_of.append(len(members_of))
            members_of.append([index])
    waiting = [{chain_of[dependency] for dependency in waits[members[0]]} for members in members_of]
    following: list[list[int]] = [[] for _ in members_of]
    for number, before in enumerate(waiting):
        for dependency in before:
            following[dependency].append(number)
    estimates = _apart(schedule)
    large = [sum([estimates[index] for index in members]) >= _LARGE for members in members_of]
    return ExecutionChains(members_of, Tasks([len(before) for before in waiting], following, large))


def worth_threads(schedule: Schedule) -> bool:
    """Return whether two chains can be worth a thread each, without building the chains."""
    return sum(_apart(schedule)) >= 2 * _LARGE


def _apart(schedule: Schedule) -> list[float]:
    """Return for each kernel the estimated µs in which it releases the GIL to other threads."""
    estimates = [kernel.cost.estimate for kernel in schedule.kernels]
    return [estimate if estimate >= _APART else 0.0 for estimate in estimates]


def dependencies(schedule: Schedule, drops: Mapping[int, Sequence[int]]) -> list[set[int]]:
    """Return for each kernel the earlier kernels that it waits for; ``drops`` are the uids that each kernel releases.

    Dependencies that are implied by others are omitted if that is cheap to detect.
    """
    kernel_of: dict[int, int] = {}
    """uid → kernel that computes it"""
    base: dict[int, int] = {}
    """uid → owner of its memory"""
    users: dict[int, list[int]] = {}
    """uid of a memory owner → kernels that write and read it; scratch memory has the key −1 − kernel"""
    calls: dict[tuple[int, int], int] = {}
    """(body, memory offset) → its last call, because all of them share one table of values"""
    memory = _Memory()
    waits: list[set[int]] = []
    chains = schedule.chains
    for index, (kernel, placement) in enumerate(zip(schedule.kernels, schedule.placements, strict=True)):
        result = kernel.result
        before = {kernel_of[read.uid] for read in kernel.reads if read.uid in kernel_of}
        busy: set[int] = set()
        if placement.offset >= 0:
            for owner in memory.take(placement.offset, aligned_size(result.type), result.uid):
                busy.update(users[owner][1:] or users[owner])  # readers wait for the writer anyway
        if placement.scratch_offset >= 0:
            # Scratch memory has no value and no uid, so a negative number represents it.
            users[-1 - index] = [index]
            for owner in memory.take(placement.scratch_offset, align_up(kernel.cost.scratch), -1 - index):
                busy.update(users[owner][1:] or users[owner])
        for uid in drops.get(index, ()):
            busy.update(users.get(base.get(uid, uid), ()))
        if isinstance(result.operation, Call):
            for body in result.operation.planned_bodies:
                key = id(body), placement.scratch_offset
                if key in calls:
                    busy.add(calls[key])
                calls[key] = index
        # Kernels of one chain run in order anyway, and a dependency's own dependencies have ended before it.
        before |= {
            user
            for user in busy - before
            if chains[user] != chains[index] and not any(user in waits[near] for near in before)
        }
        waits.append(before)
        kernel_of[result.uid] = index
        viewed = kernel.reads[0].uid if kernel.is_view and kernel.reads else result.uid
        base[result.uid] = base.get(viewed, viewed)
        users.setdefault(base[result.uid], []).append(index)
        for read in kernel.reads:
            users.setdefault(base.get(read.uid, read.uid), []).append(index)
    return waits


class _Memory:
    """Most recent owner of each part of an arena."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, int]] = []
        """(start, end, owner), sorted and without overlap"""

    def take(self, start: int, size: int, owner: int) -> list[int]:
        """Assign a memory range to an owner; return its previous owners."""
        parts, end = self._parts, start + size
        # The first part that ends after `start`: parts are sorted and do not overlap, so their ends are sorted too.
        first = bisect.bisect_right(parts, start, key=itemgetter(1))
        last = first
        while last < len(parts) and parts[last][0] < end:
            last += 1
        taken = parts[first:last]
        left = [(begin, start, other) for begin, _, other in taken[:1] if begin < start]
        right = [(end, stop, other) for _, stop, other in taken[-1:] if stop > end]
        parts[first:last] = [*left, (start, end, owner), *right]
        return [other for _, _, other in taken]
