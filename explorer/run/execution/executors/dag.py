"""Independent kernels at the same time, on as many threads as BLAS has.

The planner reserves memory for as many kernels at a time as an executor has lanes; here chains begin as soon as they
can (kernel_dependencies.py, task_scheduler.py). Blocks of a single large kernel are shared in any case, also by
``simple``: this executor is for graphs that are wide.
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
    """Run execution chains as soon as their operands and memory are there, of the ready ones the first planned one.

    The values are those of ``run_simple``. Where fewer than two chains are worth a thread, or there is one thread, it
    is that which runs. A kernel in pieces is shared with threads that have no chain; products use one thread of BLAS
    each. A failure stops the rest: running kernels end, and the first one in the schedule is raised as RunError; an
    interrupt leaves the program ready for another run. An observer is told on the thread that asked.
    """
    count = threads()
    if count < 2 or not worth_threads(program.planned.schedule) or sum(program.chains.tasks.large) < 2:
        return run_simple(program, watch)
    return run_chains(program, watch, program.chains.tasks, count)


def run_chains(
    program: Program, watch: Observer | None, tasks: Tasks, count: int, streams: list[int] | None = None
) -> Timing:
    """Run the chains of a program on threads, in any order that ``tasks`` allows; ``streams`` has each chain's."""
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
    """The run of a program, with its times; steps are shown in the stream of their chain, else in their thread."""

    scheduler: TaskScheduler

    def __init__(
        self, program: Program, watch: Observer | None, follow: ProgressCallback | None, streams: list[int] | None
    ) -> None:
        self.follow = follow
        self._program, self._watch, self._streams = program, watch, streams
        self._kernels = program.planned.schedule.kernels
        self.timing = program.blank_timing()
        self._begun: deque[int] = deque()
        """the kernels that have begun"""

    def chain(self, number: int, thread: int) -> None:
        """Run the kernels of a chain."""

        def begins(index: int) -> bool:
            if self.scheduler.stopped:
                return False
            self._begun.append(index)
            # On the calling thread alone: a user's callback need not be safe for threads.
            if self.follow is not None and not thread:
                self.tell()
            return True

        lane = thread if self._streams is None else self._streams[number]
        self._program.run_at(number, self.timing, self._watch, lane, begins)

    def tell(self) -> None:
        """Tell who follows where the run is."""
        assert self.follow is not None
        latest = self._kernels[self._begun[-1] if self._begun else 0]
        self.follow(Progress("running", latest.result.operation.label, len(self._begun), len(self._kernels)))


def run_async(program: Program, watch: Observer | None = None) -> Timing:
    """Run execution chains on streams, as many as BLAS has threads, each in an order assigned before the run.

    The values are those of ``run_simple``, which runs instead where fewer than two chains are worth a thread. Steps of
    the recording say their stream in the place of the thread.
    """
    count = threads()
    if count < 2 or not worth_threads(program.planned.schedule) or sum(program.chains.tasks.large) < 2:
        return run_simple(program, watch)
    streams, tasks = assigned(program, count)
    return run_chains(program, watch, tasks, count, streams)


def assigned(program: Program, count: int) -> tuple[list[int], Tasks]:
    """Return the stream of each chain, and the chains' dependencies, among them those on the one before in its
    stream."""
    chains, kernels = program.chains, program.planned.schedule.kernels
    needs, users = [*chains.tasks.needs], [[*following] for following in chains.tasks.users]
    before: list[list[int]] = [[] for _ in needs]
    for chain, following in enumerate(users):
        for user in following:
            before[user].append(chain)
    work = [
        Task(sum([kernels[index].cost.estimate for index in members]), tuple(before[chain]), (chain,))
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
