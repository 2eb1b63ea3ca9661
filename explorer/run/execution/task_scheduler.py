"""Task scheduler: runs a graph of tasks on threads, starting with the ready task that has the lowest index.

The calling thread takes part. Other threads join when a task is worth waking them, and leave when no task is ready.
Shared state changes only by single atomic operations on lists, heaps and queues, so an interrupt cannot leave a lock
acquired, as it can in ``concurrent.futures``.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np

from explorer.run.runtime.thread_pool import TileBatch, thread_state, wake

_TICK = 0.1
"""seconds between two progress reports while other threads run"""


class Tasks(NamedTuple):
    """Tasks of a run, as columns indexed by task."""

    needs: list[int]
    """number of tasks for which the task waits"""
    users: list[list[int]]
    """indices of the tasks that wait for the task"""
    large: list[bool]
    """whether the task takes long enough to wake another thread for the other ready tasks"""


class TaskScheduler:
    """Threads that run tasks: ``run(task, thread)`` is called for each task once its dependencies have ended.

    The calling thread has index 0. ``tick`` is called regularly while it waits for other threads.
    """

    def __init__(
        self, tasks: Tasks, run: Callable[[int, int], None], threads: int, tick: Callable[[], None] | None = None
    ) -> None:
        self.stopped = False
        """set when no further task may start"""
        self._users, self._large, self._run, self._tick = tasks.users, tasks.large, run, tick
        self._helpers = threads - 1
        self._countdowns = [None if count < 2 else list(range(count)) for count in tasks.needs]
        """a list of numbers for each task with several dependencies; popping is atomic, and 0 is popped last"""
        self._ready = [task for task, count in enumerate(tasks.needs) if not count]
        self._count = len(tasks.needs)
        self._done: deque[None] = deque()
        self._jobs: list[TileBatch] = []
        self._idle = False
        """whether the calling thread is waiting"""
        self._requested: deque[None] = deque()
        self._started: deque[None] = deque()
        self._ended: deque[None] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._failures: list[tuple[int, BaseException]] = []

    def run(self) -> None:
        """Run all tasks; return, or raise, only when no task is running.

        A failure stops the run; of several failures, that of the lowest task is raised.
        """
        outer_scheduler = thread_state.scheduler
        interrupt: KeyboardInterrupt | None = None
        try:
            thread_state.scheduler = self
            while True:
                self._work(caller=True)
                if self.stopped or len(self._done) == self._count:
                    break
                self._wait()
        finally:
            while True:
                try:
                    self.stopped = True
                    thread_state.scheduler = outer_scheduler
                    while len(self._started) > len(self._ended):
                        self._wake.get()
                    break
                except KeyboardInterrupt as error:  # retry, because other threads may still write to this run's memory
                    interrupt = error
        if interrupt is not None:
            raise interrupt
        if self._failures:
            raise min(self._failures, key=lambda failure: failure[0])[1]

    def help(self) -> None:
        """Run tasks on a thread of the pool until no task is ready."""
        while True:
            self._started.append(None)
            thread_state.scheduler = self
            with np.errstate(all="ignore"):  # as on the calling thread
                self._work(caller=False)
            # Only now is the thread counted as ended, so that no run returns while a thread of the pool belongs to it.
            thread_state.scheduler = None
            self._ended.append(None)
            self._wake.put(None)
            if self.stopped or not self._ready:  # tasks added since the last check relied on this thread
                return
            self._requested.append(None)

    def submit(self, job: TileBatch, helpers: int) -> None:
        """Ask up to ``helpers`` threads without a task to help with ``job``."""
        self._jobs.append(job)
        self._call(helpers)

    def retract(self, job: TileBatch) -> None:
        """Prevent more threads from starting work on ``job``."""
        with suppress(ValueError):
            self._jobs.remove(job)

    def _call(self, helpers: int) -> None:
        """Wake up to ``helpers`` threads, the calling thread first."""
        if self._idle:
            self._idle = False
            self._wake.put(None)
            helpers -= 1
        # Requested helpers that have not started count as present; otherwise each task would wake all threads again.
        active = max(len(self._requested), len(self._started)) - len(self._ended)
        for _ in range(min(helpers, self._helpers - active)):
            self._requested.append(None)
            wake(self, 1)

    def _work(self, caller: bool) -> None:
        """Run ready tasks; when none is ready, help with other threads' jobs."""
        ready, large = self._ready, self._large
        thread = 0 if caller else thread_state.number
        task = -1
        while not self.stopped:
            if task < 0:
                try:
                    task = heapq.heappop(ready)
                except IndexError:
                    if self._help(caller):
                        continue
                    return
            # This thread will be busy, so another thread could start the ready tasks.
            if ready and large[task]:
                self._call(1)
            try:
                self._run(task, thread)
            except BaseException as error:
                self.stopped = True
                if caller and not isinstance(error, Exception):  # an interrupt ends the run at once
                    raise
                self._failures.append((task, error))
                return
            task = self._end(task)

    def _end(self, task: int) -> int:
        """Mark ``task`` as ended; return the lowest index of a task that is now ready, or −1."""
        ready = self._ready
        next_task = -1
        for user in self._users[task]:
            countdown = self._countdowns[user]
            # Several threads may end a task's dependencies at the same time, but only one of them pops the 0.
            if countdown is None or countdown.pop() == 0:
                if next_task < 0:
                    next_task = user
                else:
                    heapq.heappush(ready, user)
        self._done.append(None)
        # Atomic, since another thread could take the task between a push and a pop.
        return heapq.heappushpop(ready, next_task) if next_task >= 0 else -1

    def _help(self, caller: bool) -> bool:
        """Help with a job of another thread; return whether there was such a job."""
        for job in tuple(self._jobs):
            if job.waiting:
                failure = job.help()
                if caller and failure is not None and not isinstance(failure, Exception):
                    raise failure
                return True
        return False

    def _wait(self) -> None:
        self._idle = True
        # Checked after ``_idle`` is set, so that work arriving in between puts a wake-up into the queue.
        if not (self._ready or self._jobs or self.stopped or len(self._done) == self._count):
            if self._tick is None:
                self._wake.get()
            else:
                with suppress(Empty):
                    self._wake.get(timeout=_TICK)
                self._tick()
        self._idle = False
