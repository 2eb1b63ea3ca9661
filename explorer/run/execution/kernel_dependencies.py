"""Dependencies of parallel kernels: on values that they read, and on memory that other kernels still read.

Memory is planned for one order of kernels (plan/passes/buffers.py). A kernel that overwrites a value waits for all its
readers, so every kernel reads the same values in any allowed order.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from explorer.core.ir.function import Call
from explorer.plan.schedule.schedule import Schedule, align_up, aligned_size
from explorer.run.execution.task_scheduler import Tasks

_MIN_LARGE = 50.0
"""estimated µs above which another thread is woken for ready tasks; waking a thread takes as long"""
_MIN_RELEASED = 10.0
"""estimated µs below which a kernel mostly runs Python code, during which it holds the GIL"""


class ExecutionChains(NamedTuple):
    """Execution chains, which are kernel sequences for one thread, and their dependencies."""

    kernels: list[list[int]]
    """indices of the kernels of each chain"""
    tasks: Tasks

    def is_chain_start(self, kernel: int) -> bool:
        """Return whether a kernel is the first kernel of its chain."""
        # The chains are in the order of their first kernels.
        position = bisect.bisect_left(self.kernels, kernel, key=itemgetter(0))
        return position < len(self.kernels) and self.kernels[position][0] == kernel

    def runtime_parent_count(self, chain: int) -> int:
        """Return the number of chains that must have run before ``chain`` starts."""
        return self.tasks.needs[chain]


def chains(schedule: Schedule, waits: Sequence[set[int]]) -> ExecutionChains:
    """Join a kernel and its only dependency into a chain if no other kernel has that dependency."""
    users = [0] * len(waits)
    for required in waits:
        for dependency in required:
            users[dependency] += 1
    members_of: list[list[int]] = []
    chain_of: list[int] = []
    for index, required in enumerate(waits):
        only = next(iter(required)) if len(required) == 1 else -1
        if only >= 0 and users[only] == 1:
            chain_of.append(chain_of[only])
            members_of[chain_of[only]].append(index)
        else:
            chain_of.append(len(members_of))
            members_of.append([index])
    required_chains = [{chain_of[dependency] for dependency in waits[members[0]]} for members in members_of]
    dependents: list[list[int]] = [[] for _ in members_of]
    for chain, required in enumerate(required_chains):
        for dependency in required:
            dependents[dependency].append(chain)
    estimates = _released_micros(schedule)
    large = [sum([estimates[index] for index in members]) >= _MIN_LARGE for members in members_of]
    return ExecutionChains(members_of, Tasks([len(required) for required in required_chains], dependents, large))


def worth_threads(schedule: Schedule) -> bool:
    """Return whether two chains may be worth a thread each, without building the chains."""
    return sum(_released_micros(schedule)) >= 2 * _MIN_LARGE


def _released_micros(schedule: Schedule) -> list[float]:
    """Return, for each kernel, the estimated time in µs without the GIL."""
    estimates = [kernel.cost.estimate for kernel in schedule.kernels]
    return [estimate if estimate >= _MIN_RELEASED else 0.0 for estimate in estimates]


def dependencies(schedule: Schedule, drops: Mapping[int, Sequence[int]]) -> list[set[int]]:
    """Return, for each kernel, the earlier kernels for which it waits.

    ``drops`` contains the uids that each kernel releases. Redundant dependencies are omitted if cheap to detect.
    """
    kernel_of: dict[int, int] = {}
    """uid → kernel that computes it"""
    base: dict[int, int] = {}
    """uid → uid of the value that owns its memory"""
    users: dict[int, list[int]] = {}
    """uid of a memory owner → kernels that write and read the memory; the key for scratch memory is −1 − kernel"""
    calls: dict[tuple[int, int], int] = {}
    """(body, memory offset) → last call of this body, because all these calls share one table of values"""
    memory = _Memory()
    waits: list[set[int]] = []
    chains = schedule.chains
    for index, (kernel, placement) in enumerate(zip(schedule.kernels, schedule.placements, strict=True)):
        result = kernel.result
        required = {kernel_of[read.uid] for read in kernel.reads if read.uid in kernel_of}
        memory_users: set[int] = set()
        if placement.offset >= 0:
            for owner in memory.take(placement.offset, aligned_size(result.type), result.uid):
                memory_users.update(users[owner][1:] or users[owner])  # readers already wait for the writer
        if placement.scratch_offset >= 0:
            # Scratch memory has no uid, so a negative number identifies it.
            users[-1 - index] = [index]
            for owner in memory.take(placement.scratch_offset, align_up(kernel.cost.scratch), -1 - index):
                memory_users.update(users[owner][1:] or users[owner])
        for uid in drops.get(index, ()):
            memory_users.update(users.get(base.get(uid, uid), ()))
        if isinstance(result.operation, Call):
            for body in result.operation.planned_bodies:
                key = id(body), placement.scratch_offset
                if key in calls:
                    memory_users.add(calls[key])
                calls[key] = index
        # Redundant: kernels of the same chain run in order, and dependencies of dependencies are implied.
        required |= {
            user
            for user in memory_users - required
            if chains[user] != chains[index] and not any(user in waits[dependency] for dependency in required)
        }
        waits.append(required)
        kernel_of[result.uid] = index
        base_uid = kernel.reads[0].uid if kernel.is_view and kernel.reads else result.uid
        base[result.uid] = base.get(base_uid, base_uid)
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
        """Assign the memory range from ``start``, with ``size`` bytes, to ``owner``; return the previous owners."""
        parts, end = self._parts, start + size
        # Find the first part that ends after `start`; parts are sorted and do not overlap, so their ends are sorted
        # too.
        first = bisect.bisect_right(parts, start, key=itemgetter(1))
        last = first
        while last < len(parts) and parts[last][0] < end:
            last += 1
        overlapped = parts[first:last]
        left_rest = [(begin, start, previous_owner) for begin, _, previous_owner in overlapped[:1] if begin < start]
        right_rest = [(end, stop, previous_owner) for _, stop, previous_owner in overlapped[-1:] if stop > end]
        parts[first:last] = [*left_rest, (start, end, owner), *right_rest]
        return [previous_owner for _, _, previous_owner in overlapped]
