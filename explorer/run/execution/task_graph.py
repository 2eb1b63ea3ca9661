"""What a kernel waits for when kernels run at a time: values that it reads, and memory that others still read.

Memory is planned for one order of kernels (plan/memory/buffers.py). In another order a kernel that writes where a value
lay waits for all that read it; so whatever the order, each reads what it would read in the planned one.
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
"""µs of estimated time from which a thread is woken for what else is ready: waking one takes as long"""
_APART = 10.0
"""µs of estimated time below which a kernel is mostly Python, which one thread at a time runs"""


class ExecutionChains(NamedTuple):
    """Execution chains: kernels that run one after the other on one thread; and what these wait for."""

    kernels: list[list[int]]
    """by the number of the chain"""
    tasks: Tasks


def chains(schedule: Schedule, waits: Sequence[set[int]]) -> ExecutionChains:
    """Kernels of which each is all that the next one waits for, and nothing else waits for it."""
    users = [0] * len(waits)
    for before in waits:
        for other in before:
            users[other] += 1
    found: list[list[int]] = []
    chain_of: list[int] = []
    for index, before in enumerate(waits):
        only = next(iter(before)) if len(before) == 1 else -1
        if only >= 0 and users[only] == 1:
            chain_of.append(chain_of[only])
            found[chain_of[only]].append(index)
        else:
            chain_of.append(len(found))
            found.append([index])
    waiting = [{chain_of[other] for other in waits[members[0]]} for members in found]
    following: list[list[int]] = [[] for _ in found]
    for number, before in enumerate(waiting):
        for other in before:
            following[other].append(number)
    estimates = _apart(schedule)
    large = [sum([estimates[index] for index in members]) >= _LARGE for members in found]
    return ExecutionChains(found, Tasks([len(before) for before in waiting], following, large))


def worth_threads(schedule: Schedule) -> bool:
    """Whether there can be two chains that are worth a thread each; told without looking for chains."""
    return sum(_apart(schedule)) >= 2 * _LARGE


def _apart(schedule: Schedule) -> list[float]:
    """For each kernel the estimated µs in which other threads can run."""
    return [kernel.estimate if kernel.estimate >= _APART else 0.0 for kernel in schedule.kernels]


def dependencies(schedule: Schedule, drops: Mapping[int, Sequence[int]]) -> list[set[int]]:
    """For each kernel the kernels that it waits for, all earlier ones; ``drops``: by kernel, uids that it lets go of.

    What follows from the others is left out where that is seen at once.
    """
    made: dict[int, int] = {}
    """uid → the kernel whose result it is"""
    base: dict[int, int] = {}
    """uid → the value whose memory it lies in"""
    users: dict[int, list[int]] = {}
    """uid of what owns memory → the kernels that write and read it; scratch memory by −1 − its kernel"""
    calls: dict[tuple[int, int], int] = {}
    """a body and the place of its memory → the last call of it: the values of both stand in one table"""
    memory = _Memory()
    found: list[set[int]] = []
    for index, kernel in enumerate(schedule.kernels):
        result = kernel.result
        before = {made[read.uid] for read in kernel.reads if read.uid in made}
        busy: set[int] = set()
        if kernel.offset >= 0:
            for owner in memory.take(kernel.offset, aligned_size(result.type), result.uid):
                busy.update(users[owner][1:] or users[owner])  # who reads it waits for who writes it
        if kernel.scratch_offset >= 0:
            users[-1 - index] = [index]
            for owner in memory.take(kernel.scratch_offset, align_up(kernel.scratch), -1 - index):
                busy.update(users[owner][1:] or users[owner])
        for uid in drops.get(index, ()):
            busy.update(users.get(base.get(uid, uid), ()))
        if isinstance(result.operation, Call):
            key = id(result.operation.body), kernel.scratch_offset
            if key in calls:
                busy.add(calls[key])
            calls[key] = index
        before |= {
            other
            for other in busy - before
            if schedule.kernels[other].chain != kernel.chain and not any(other in found[near] for near in before)
        }
        found.append(before)
        made[result.uid] = index
        viewed = kernel.reads[0].uid if result.operation.view and kernel.reads else result.uid
        base[result.uid] = base.get(viewed, viewed)
        users.setdefault(base[result.uid], []).append(index)
        for read in kernel.reads:
            users.setdefault(base.get(read.uid, read.uid), []).append(index)
    return found


class _Memory:
    """Which owner wrote each part of an arena last."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, int]] = []
        """where each begins and ends, and its owner, side by side"""

    def take(self, start: int, size: int, owner: int) -> list[int]:
        """The owners of what lies there, which is from now on another's."""
        parts, end = self._parts, start + size
        first = bisect.bisect_right(parts, start, key=itemgetter(1))
        last = first
        while last < len(parts) and parts[last][0] < end:
            last += 1
        taken = parts[first:last]
        left = [(begin, start, other) for begin, _, other in taken[:1] if begin < start]
        right = [(end, stop, other) for _, stop, other in taken[-1:] if stop > end]
        parts[first:last] = [*left, (start, end, owner), *right]
        return [other for _, _, other in taken]
