"""A crew: threads that run tasks of which some wait for others. Tasks that are not begun wait by number.

The thread that asks takes part; workers come when there is a task for them that is worth waking one, and go when there
is none. What several of them touch is changed by single operations of lists, heaps and queues, without a lock: an
interrupt finds nothing that it could leave taken.
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
"""seconds between two reports to who follows, while others work"""


class Tasks(NamedTuple):
    """What a crew does, each by the number of the task."""

    needs: list[int]
    """how many tasks it waits for"""
    users: list[list[int]]
    """the tasks that wait for it, by number"""
    large: list[bool]
    """whether it lasts so long that another thread should be woken for others"""


class TaskScheduler:
    """Threads at one run of tasks: ``run(task, thread)`` is called for each when all that it waits for have ended.

    The thread that asks is 0, others are workers. ``tick`` is called now and then while the former waits for these.
    """

    def __init__(
        self, tasks: Tasks, run: Callable[[int, int], None], threads: int, tick: Callable[[], None] | None = None
    ) -> None:
        self.stopped = False
        """no task begins any more"""
        self._users, self._large, self._run, self._tick = tasks.users, tasks.large, run, tick
        self._helpers = threads - 1
        self._left = [None if count < 2 else list(range(count)) for count in tasks.needs]
        """a number for each task that one waits for: who takes out 0 was the last"""
        self._ready = [task for task, count in enumerate(tasks.needs) if not count]
        self._count = len(tasks.needs)
        self._done: deque[None] = deque()
        self._jobs: list[TileBatch] = []
        self._idle = False
        """the thread that asked waits"""
        self._asked: deque[None] = deque()
        self._begun: deque[None] = deque()
        self._ended: deque[None] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._failures: list[tuple[int, BaseException]] = []

    def run(self) -> None:
        """Run all tasks; the failure of the first one, by number, stops the rest and is raised.

        Returns, or raises, when no task runs any more.
        """
        before = thread_state.scheduler
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
                    thread_state.scheduler = before
                    while len(self._begun) > len(self._ended):
                        self._wake.get()
                    break
                except KeyboardInterrupt as error:  # until no worker writes into memory of ours
                    interrupt = error
        if interrupt is not None:
            raise interrupt
        if self._failures:
            raise min(self._failures, key=lambda failure: failure[0])[1]

    def help(self) -> None:
        """Work along on a thread that nobody interrupts, until nothing is ready."""
        while True:
            self._begun.append(None)
            thread_state.scheduler = self
            with np.errstate(all="ignore"):  # as on the thread that asked
                self._work(caller=False)
            thread_state.scheduler = None
            self._ended.append(None)
            self._wake.put(None)
            if self.stopped or not self._ready:  # what came since it found nothing found it still here
                return
            self._asked.append(None)

    def submit(self, job: TileBatch, helpers: int) -> None:
        """Have up to so many threads help that have no task."""
        self._jobs.append(job)
        self._call(helpers)

    def retract(self, job: TileBatch) -> None:
        """No thread begins to help any more."""
        with suppress(ValueError):
            self._jobs.remove(job)

    def _call(self, helpers: int) -> None:
        """Have threads come that are not here, the one that asked first."""
        if self._idle:
            self._idle = False
            self._wake.put(None)
            helpers -= 1
        here = max(len(self._asked), len(self._begun)) - len(self._ended)
        for _ in range(min(helpers, self._helpers - here)):
            self._asked.append(None)
            wake(self, 1)

    def _work(self, caller: bool) -> None:
        """Run what is ready, help with jobs where nothing is."""
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
            if ready and large[task]:
                self._call(1)
            try:
                self._run(task, thread)
            except BaseException as error:
                self.stopped = True
                if caller and not isinstance(error, Exception):
                    raise
                self._failures.append((task, error))
                return
            task = self._end(task)

    def _end(self, task: int) -> int:
        """A task has ended: of those that waited only for it, and those that are ready, the first; −1 for none."""
        ready = self._ready
        following = -1
        for user in self._users[task]:
            left = self._left[user]
            if left is None or left.pop() == 0:
                if following < 0:
                    following = user
                else:
                    heapq.heappush(ready, user)
        self._done.append(None)
        return heapq.heappushpop(ready, following) if following >= 0 else -1

    def _help(self, caller: bool) -> bool:
        """Help with a job of another thread; whether there was one."""
        for job in tuple(self._jobs):
            if job.waiting:
                failure = job.help()
                if caller and failure is not None and not isinstance(failure, Exception):
                    raise failure
                return True
        return False

    def _wait(self) -> None:
        """Until there may be something for the thread that asked."""
        self._idle = True
        if not (self._ready or self._jobs or self.stopped or len(self._done) == self._count):
            if self._tick is None:
                self._wake.get()
            else:
                with suppress(Empty):
                    self._wake.get(timeout=_TICK)
                self._tick()
        self._idle = False
