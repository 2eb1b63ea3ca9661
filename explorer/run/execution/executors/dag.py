"""Parallel execution of independent kernels, on as many threads as BLAS uses.

The planner reserves memory for as many concurrent kernels as an executor has lanes. This executor starts chains of
kernels as soon as possible (kernel_dependencies.py, task_scheduler.py). All executors distribute the blocks of large
kernels over threads, so this one is for graphs with many independent kernels.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from explorer.core.progress import Progress, ProgressCallback, current_callback
from explorer.plan.schedule.task_assignment import HOME, Network, Task, assign
from explorer.run.execution.executors.simple import run_simple
from explorer.run.execution.kernel_dependencies import worth_threads
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.execution.task_scheduler import Tasks, TaskScheduler
from explorer.run.runtime.thread_pool import single_threaded_products, threads
from explorer.run.runtime.timing import Timing


def run_dag(program: Program, watch: Observer | None = None) -> Timing:
    """Run execution chains as soon as their operands and memory are available; ready chains start in planned order.

    The values equal those of ``run_simple``, which is used instead if there is only one thread, or if at most one chain
    is worth a thread. Idle threads help with other threads' kernels; each matrix product uses one BLAS thread. After a
    failure, running kernels finish, no others start, and the failure that is first in the schedule is raised as
    RunError. After an interrupt, the program can run again. Observers are called on the calling thread.
    """
    count = threads()
    if count < 2 or not worth_threads(program.planned.schedule) or sum(program.chains.tasks.large) < 2:
        return run_simple(program, watch)
    return run_chains(program, watch, program.chains.tasks, count)


def run_chains(
    program: Program, watch: Observer | None, tasks: Tasks, count: int, streams: list[int] | None = None
) -> Timing:
    """Run a program's chains on ``count`` threads, in any order ``tasks`` allows; ``streams`` holds each chain's
    stream."""
    run = ChainRun(program, watch, current_callback(), streams)
    scheduler = run.scheduler = TaskScheduler(tasks, run.chain, count, None if run.follow is None else run.tell)
    try:
        with np.errstate(all="ignore"), single_threaded_products():
            scheduler.run()
    except BaseException:
        program.forget()
        raise
    return run.timing


class ChainRun:
    """Run of a program, with its times; steps are shown in their chain's stream, if there is one, else in their
    thread."""

    scheduler: TaskScheduler

    def __init__(
        self, program: Program, watch: Observer | None, follow: ProgressCallback | None, streams: list[int] | None
    ) -> None:
        self.follow = follow
        self._program, self._watch, self._streams = program, watch, streams
        self._kernels = program.planned.schedule.kernels
        self.timing = program.blank_timing()
        self._started: deque[int] = deque()
        """kernels that have started"""

    def chain(self, number: int, thread: int) -> None:
        """Run the kernels of a chain."""

        def begins(index: int) -> bool:
            if self.scheduler.stopped:
                return False
            self._started.append(index)
            # Only on the calling thread, because a user's callback may not be thread-safe.
            if self.follow is not None and not thread:
                self.tell()
            return True

        lane = thread if self._streams is None else self._streams[number]
        self._program.run_at(number, self.timing, self._watch, lane, begins)

    def tell(self) -> None:
        """Report the progress to the progress callback."""
        assert self.follow is not None
        latest = self._kernels[self._started[-1] if self._started else 0]
        self.follow(Progress("running", latest.result.operation.label, len(self._started), len(self._kernels)))


def run_async(program: Program, watch: Observer | None = None) -> Timing:
    """Run execution chains on as many streams as BLAS uses threads, each in an order assigned before the run.

    The values equal those of ``run_simple``, which is used instead if at most one chain is worth a thread. Recorded
    steps name their stream instead of a thread.
    """
    count = threads()
    if count < 2 or not worth_threads(program.planned.schedule) or sum(program.chains.tasks.large) < 2:
        return run_simple(program, watch)
    streams, tasks = assigned(program, count)
    return run_chains(program, watch, tasks, count, streams)


def assigned(program: Program, count: int) -> tuple[list[int], Tasks]:
    """Return each chain's stream, and the dependencies of the chains, including their order in each stream."""
    chains, kernels = program.chains, program.planned.schedule.kernels
    needs, users = [*chains.tasks.needs], [[*chain_users] for chain_users in chains.tasks.users]
    dependencies: list[list[int]] = [[] for _ in needs]
    for chain, chain_users in enumerate(users):
        for user in chain_users:
            dependencies[user].append(chain)
    work = [
        Task(sum([kernels[index].cost.estimate for index in members]), tuple(dependencies[chain]), (chain,))
        for chain, members in enumerate(chains.kernels)
    ]
    assignment = assign(work, dict.fromkeys(range(len(work)), 0), (), (), Network(count))
    last: dict[int, int] = {}
    for chain in assignment.order:
        previous = last.get(assignment.lanes[chain])
        if previous is not None and chain not in users[previous]:
            users[previous].append(chain)
            needs[chain] += 1
        last[assignment.lanes[chain]] = chain
    return [lane - 1 if lane != HOME else 0 for lane in assignment.lanes], Tasks(needs, users, chains.tasks.large)
