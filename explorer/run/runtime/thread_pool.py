"""Workers: threads that share the pieces of a kernel, each with one thread of BLAS.

A product that BLAS shares among its own threads reads what one thread has just gathered, from another core's cache:
pieces that gather and multiply for themselves take half the time. There are as many workers as BLAS has threads, so
that ``OPENBLAS_NUM_THREADS``, ``OMP_NUM_THREADS`` and threadpoolctl rule both.
"""

from __future__ import annotations

import _thread
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from typing import Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

from explorer.plan.schedule.schedule import Kernel

_FLOPS, _BYTES = 1 << 23, 1 << 21
"""what a kernel computes, or moves, from which it is shared among threads: waking one takes 50 µs"""


def worth_sharing(kernel: Kernel) -> bool:
    """Whether a kernel has work for several threads."""
    return kernel.flops >= _FLOPS or kernel.bytes + sum([read.type.nbytes for read in kernel.reads]) >= _BYTES


class _Blas(AbstractContextManager[None]):
    """The threads of the BLAS that NumPy multiplies with: one inside ``with``, as before after it.

    Its number is the process's: the thread that came first sets it and sets it back; for others meanwhile inside it
    is as that thread has it. An interrupt at any place leaves it as before, or so that the next ``with`` mends it.
    """

    def __init__(self) -> None:
        np.matmul(np.ones((2, 2)), np.ones((2, 2)))  # loaded by now, whatever loads it late
        self._controller = ThreadpoolController().select(user_api="blas")
        self._libraries = self._controller.lib_controllers
        self._before: list[int] = []
        self._owner: int | None = None
        self._lock = threading.Lock()

    @property
    def threads(self) -> int:
        """How many threads it uses; as many as the process has processors where it does not tell."""
        with self._lock:
            counts = self._counts() if self._owner is None else self._before
        return max(counts) if counts else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1

    @property
    def ruled(self) -> bool:
        """Whether this thread is inside."""
        return self._owner == threading.get_ident()

    def _counts(self) -> list[int]:
        return [library.num_threads or 1 for library in self._libraries]

    def __enter__(self) -> None:
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise

    def _take(self) -> None:
        with self._lock:
            if self._owner is None:
                self._before = self._counts()
                self._owner = threading.get_ident()
                for library in self._libraries:
                    library.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        try:
            self._give_back()
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        with self._lock:
            if self.ruled:
                for library, count in zip(self._libraries, self._before, strict=True):
                    library.set_num_threads(count)
                with self._controller.limit():
                    pass  # threadpoolctl lets another thread rule when the last limit of this one ends
                self._owner = None


@functools.cache
def _blas() -> _Blas:
    return _Blas()


class SharedWork(Protocol):
    """What threads can help with."""

    def help(self) -> object:
        """Do what can be done now; raises nothing on a thread that nobody interrupts."""


class TileBatch:
    """Tasks that several threads take from ``waiting``; a failure empties it."""

    def __init__(self, tasks: Sequence[Callable[[], None]]) -> None:
        self.waiting = deque(tasks)
        self.begun: dict[object, None] = {}
        """one for each helper that began"""
        self.ended: dict[object, BaseException | None] = {}
        """one for each helper that ended: its failure"""
        self.wake: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Run tasks until none waits."""
        waiting = self.waiting
        while True:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException:
                waiting.clear()
                raise

    def help(self) -> BaseException | None:
        """``work`` for the thread that made the job; that is told of a failure, which is returned here too."""
        mine = object()
        failure: BaseException | None = None
        try:
            self.begun[mine] = None
            with np.errstate(all="ignore"):  # as on the thread that asked
                self.work()
        except BaseException as error:
            failure = error
        while True:
            try:
                if mine in self.begun:
                    self.ended[mine] = failure
                self.wake.put(None)
                return failure
            except KeyboardInterrupt as error:  # not before it is told that this thread has ended
                failure = error


class TileQueue(Protocol):
    """Threads that are at one run: those of them that have nothing else to do help with its jobs."""

    def submit(self, job: TileBatch, helpers: int) -> None:
        """Have up to so many threads help."""

    def retract(self, job: TileBatch) -> None:
        """No thread begins to help any more."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.number = 0
        self.scheduler: TileQueue | None = None


thread_state = _ThreadState()
"""of each thread: its number, 0 where it is no worker; and the crew that it is in"""


class _Pool:
    """Threads that help with jobs.

    Of queues and threads the plainest: an interrupt inside those of ``threading`` and ``concurrent.futures``, which
    are written in Python, can leave a lock taken for good.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[SharedWork] = SimpleQueue()
        self._threads = 0

    def wake(self, job: SharedWork, helpers: int) -> None:
        """Have so many threads help, or as many as can be had, which at the end of the process is none."""
        with suppress(RuntimeError):
            while self._threads < helpers:
                _thread.start_new_thread(self._serve, (self._threads + 1,))
                self._threads += 1
        for _ in range(min(helpers, self._threads)):
            self._jobs.put(job)

    def _serve(self, number: int) -> None:
        thread_state.number = number
        while True:
            self._jobs.get().help()


@functools.cache
def _pool() -> _Pool:
    return _Pool()


def threads() -> int:
    """How many threads share work: as many as BLAS has."""
    return _blas().threads


def wake(work: SharedWork, helpers: int) -> None:
    """Have so many workers help, or as many as can be had, as soon as they are free."""
    _pool().wake(work, helpers)


def single_threaded_products() -> AbstractContextManager[None]:
    """BLAS keeps to one thread inside ``with``: its own threads, once awake, wait busily for more and slow workers."""
    return _blas()


def share(tasks: Sequence[Callable[[], None]]) -> None:
    """Run all tasks, on this thread and on workers; the first failure stops the rest and is raised here.

    Returns, or raises, when no task runs any more.
    """
    blas = _blas()
    most = min(len(tasks), blas.threads)
    if most < 2:
        for task in tasks:
            task()
        return
    job, scheduler = TileBatch(tasks), thread_state.scheduler
    interrupt: KeyboardInterrupt | None = None
    with nullcontext() if blas.ruled else blas:
        try:
            if scheduler is None:
                _pool().wake(job, most - 1)
            else:
                scheduler.submit(job, most - 1)
            job.work()
        finally:
            while True:
                try:
                    job.waiting.clear()  # after a failure or an interrupt
                    if scheduler is not None:
                        scheduler.retract(job)
                    while len(job.begun) > len(job.ended):
                        job.wake.get()
                    break
                except KeyboardInterrupt as error:  # until no helper writes into memory of ours
                    interrupt = error
    if interrupt is not None:
        raise interrupt
    for failure in tuple(job.ended.values()):  # a late helper may be entering itself
        if failure is not None:
            raise failure


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    _pool.cache_clear()
    _blas.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
