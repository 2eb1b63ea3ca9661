"""Streams: each chain has its place before the run begins, and waits for the events of other streams (AsyncDAGNet).

The executor is called "async". Unlike "dag", whose threads take whatever is ready, a stream runs its own chains in an
order that was assigned by the plan's prices, so that the same chains stand in the same lanes in every run, and lanes
can be compared with ``plan.estimate``. An event is the end of a chain: no thread is blocked while its stream waits.
"""

from __future__ import annotations

from explorer.core.progress import ProgressCallback, current_callback
from explorer.plan.schedule.task_assignment import HOME, Network, Task, assign
from explorer.run.execution.executors.dag import ChainRun, run_chains
from explorer.run.execution.executors.simple import run_simple
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.execution.task_graph import worth_threads
from explorer.run.execution.task_scheduler import Tasks
from explorer.run.runtime.thread_pool import threads
from explorer.run.runtime.timing import Timing


def run_async(program: Program, watch: Observer | None = None) -> Timing:
    """Run execution chains on streams, as many as BLAS has threads, each in an order assigned before the run.

    The values are those of ``run_simple``, which runs instead where fewer than two chains are worth a thread. Steps of
    the recording say their stream in the place of the thread.
    """
    count = threads()
    if count < 2 or not worth_threads(program.planned.schedule) or sum(program.chains.tasks.large) < 2:
        return run_simple(program, watch)
    streams, tasks = assigned(program, count)
    return run_chains(program, _StreamRun(program, watch, current_callback(), streams), tasks, count)


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


class _StreamRun(ChainRun):
    """Run whose steps say the stream of their chain."""

    def __init__(
        self, program: Program, watch: Observer | None, follow: ProgressCallback | None, streams: list[int]
    ) -> None:
        super().__init__(program, watch, follow)
        self._streams = streams

    def lane(self, number: int, thread: int) -> int:
        """Return the stream of a chain."""
        return self._streams[number]
