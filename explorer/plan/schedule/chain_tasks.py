"""Schedules as tasks for workers without shared memory: one task for each chain, and the values passed between
them.

The executors "async" and "dask" and ``plan.estimate`` use the tasks, and plan/schedule/task_assignment.py chooses their
workers. A chain is not divided, because each kernel waits for the previous one anyway, so dividing only adds a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.plan.schedule.schedule import Kernel, Schedule
from explorer.plan.schedule.task_assignment import Network, Task

_SMALL = 4096
"""maximum bytes of a leaf that is sent in the messages of the tasks that read it; a larger leaf has its own message"""


class ChainTasks(NamedTuple):
    """Tasks of a schedule, and the values that they read and produce; values are identified by uid."""

    tasks: list[Task]
    kernels: list[list[int]]
    """for each task, the indices of its kernels, in order"""
    sizes: dict[int, int]
    """uid of a value → its bytes"""
    inputs: list[int]
    """uids of the leaves that are sent in their own messages"""
    results: list[int]


def chain_tasks(
    schedule: Schedule,
    at_home: Callable[[Kernel], bool] = lambda kernel: False,
    away: Callable[[Kernel], bool] = lambda kernel: True,
) -> ChainTasks:
    """Return the chains of ``schedule`` as tasks.

    ``at_home`` states whether a kernel may run in the calling process, and ``away`` whether it may run on a worker. A
    chain may run at a location if each of its kernels may. Views of whole values are recreated instead of sent, and
    constants are computed wherever they are read.
    """
    members: list[list[int]] = []
    task_of_chain: dict[int, int] = {}
    task_of: dict[int, int] = {}
    """uid of a value → index of the task that computes it"""
    for index, (kernel, chain) in enumerate(zip(schedule.kernels, schedule.chains, strict=True)):
        if kernel.constant:
            continue
        # A view is created by the task of the viewed value, because otherwise the whole value would have to be sent.
        if kernel.is_view and len(kernel.reads) == 1 and kernel.reads[0].uid in task_of:
            task_of[kernel.result.uid] = task_of[kernel.reads[0].uid]
            members[task_of[kernel.result.uid]].append(index)
            continue
        if chain not in task_of_chain:
            task_of_chain[chain] = len(members)
            members.append([])
        members[task_of_chain[chain]].append(index)
        task_of[kernel.result.uid] = task_of_chain[chain]
    base = bases(schedule)
    local = {leaf.uid for leaf in schedule.leaves if leaf.type.nbytes <= _SMALL}
    local |= {kernel.result.uid for kernel in schedule.kernels if kernel.constant}
    reads: list[dict[int, Expr]] = [{} for _ in members]
    sends: list[dict[int, Expr]] = [{} for _ in members]
    for task, indices in enumerate(members):
        for index in indices:
            for read in schedule.kernels[index].reads:
                # The viewed value is sent once, however many of its views the task reads.
                value = base.get(read.uid, read)
                if task_of.get(value.uid) != task and value.uid not in local:
                    reads[task][value.uid] = value
                    if value.uid in task_of:
                        sends[task_of[value.uid]][value.uid] = value
    # The key is the uid, so a result that is requested twice is sent once.
    roots = {value.uid: value for root in schedule.roots for value in (base.get(root.uid, root),)}
    for uid, root in roots.items():
        if uid in task_of:
            sends[task_of[uid]][uid] = root
    tasks = []
    for task, indices in enumerate(members):
        kernels = [schedule.kernels[index] for index in indices]
        micros = sum([kernel.cost.estimate for kernel in kernels])
        runs_locally, runs_remotely = all(map(at_home, kernels)), all(map(away, kernels))
        tasks.append(Task(micros, tuple(reads[task]), tuple(sends[task]), runs_locally, runs_remotely))
    values = [node for table in (*reads, *sends) for node in table.values()]
    return ChainTasks(
        tasks,
        members,
        {node.uid: node.type.nbytes for node in (*values, *schedule.leaves, *roots.values())},
        [leaf.uid for leaf in schedule.leaves if leaf.uid not in local],
        list(roots),
    )


def ends_before_messages(kernel: Kernel, network: Network) -> bool:
    """Return whether a kernel finishes earlier than its operands would arrive at a worker.

    The time of a kernel that only copies is compared with the time to transfer its bytes. The time of any other kernel
    is compared with the time of an empty message, because the calling process is not an additional worker.
    """
    size = 0 if kernel.cost.flops else kernel.result.type.nbytes
    return kernel.cost.estimate <= network.latency + size / network.bandwidth


def bases(schedule: Schedule) -> dict[int, Expr]:
    """Return a map from the uid of each view of a whole value to the value; views of views are included.

    Views of a part, such as a row or one of several outputs, are excluded, because sending a part is cheaper than
    sending the whole value.
    """
    base: dict[int, Expr] = {}
    for kernel in schedule.kernels:
        result = kernel.result
        if kernel.is_view and len(kernel.reads) == 1 and not kernel.constant:
            (viewed,) = kernel.reads
            if result.type.nbytes < viewed.type.nbytes:
                continue
            base[result.uid] = base.get(viewed.uid, viewed)
    return base
