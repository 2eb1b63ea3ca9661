"""Work of a schedule: its chains as tasks for workers that share no memory, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.plan.schedule.schedule import Kernel, Schedule
from explorer.plan.schedule.work_assignment import Task

_SMALL = 4096
"""bytes of a leaf up to which it travels with the tasks that read it, and is no message of its own"""


class Work(NamedTuple):
    """Tasks of a schedule, with the values that they read and give, by uid."""

    tasks: list[Task]
    kernels: list[list[int]]
    """by task: the numbers of its kernels, in their order"""
    sizes: dict[int, int]
    """bytes of each value"""
    inputs: list[int]
    """leaves that are sent in messages of their own"""
    results: list[int]


def work_of(
    schedule: Schedule,
    at_home: Callable[[Kernel], bool] = lambda kernel: False,
    away: Callable[[Kernel], bool] = lambda kernel: True,
) -> Work:
    """Return the work of a schedule; a chain may run at home, or away, where each of its kernels may."""
    members: list[list[int]] = []
    numbers: dict[int, int] = {}
    task_of: dict[int, int] = {}
    """uid → task that computes it"""
    small = {leaf.uid for leaf in schedule.leaves if leaf.type.nbytes <= _SMALL}
    for index, (kernel, chain) in enumerate(zip(schedule.kernels, schedule.chains, strict=True)):
        if chain not in numbers:
            numbers[chain] = len(members)
            members.append([])
        members[numbers[chain]].append(index)
        task_of[kernel.result.uid] = numbers[chain]
    reads: list[dict[int, Expr]] = [{} for _ in members]
    gives: list[dict[int, Expr]] = [{} for _ in members]
    for number, indices in enumerate(members):
        for index in indices:
            for read in schedule.kernels[index].reads:
                if task_of.get(read.uid) != number and read.uid not in small:
                    reads[number][read.uid] = read
                    if read.uid in task_of:
                        gives[task_of[read.uid]][read.uid] = read
    for root in schedule.roots:
        if root.uid in task_of:
            gives[task_of[root.uid]][root.uid] = root
    tasks = [
        Task(
            sum([schedule.kernels[index].cost.estimate for index in indices]),
            tuple(reads[number]),
            tuple(gives[number]),
            all(at_home(schedule.kernels[index]) for index in indices),
            all(away(schedule.kernels[index]) for index in indices),
        )
        for number, indices in enumerate(members)
    ]
    values = [node for table in (*reads, *gives) for node in table.values()]
    return Work(
        tasks,
        members,
        {node.uid: node.type.nbytes for node in (*values, *schedule.leaves, *schedule.roots)},
        [leaf.uid for leaf in schedule.leaves if leaf.uid not in small],
        [root.uid for root in schedule.roots],
    )
