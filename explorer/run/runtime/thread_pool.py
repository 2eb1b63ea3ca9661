"""Worker threads that share the tiles of a kernel, each with one BLAS thread.

If one thread both gathers and multiplies a tile, this takes half the time of a product on BLAS's own threads, which
would read the tile from another core's cache. There are as many workers as BLAS threads, so ``OPENBLAS_NUM_THREADS``,
``OMP_NUM_THREADS`` and threadpoolctl control both. ``concurrent.futures`` is not used, because an interrupt inside it
can leave a lock acquired forever.
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

from explorer.ops.control.recurrence import Recurrence
from explorer.plan.schedule.schedule import Kernel

_FLOPS, _BYTES = 1 << 23, 1 << 21
"""minimum numbers of operations and of bytes for which threads share a kernel, since waking a thread takes 50 µs"""
_PRODUCT = 1 << 21
"""number of operations above which BLAS divides a product between its threads. This saves 10 µs of 30 if the threads
are awake and no other program uses their processors; otherwise, a product of 30 µs takes milliseconds.
"""


def worth_sharing(kernel: Kernel) -> bool:
    """Return whether a kernel has enough work for several threads."""
    cost = kernel.cost
    return cost.flops >= _FLOPS or cost.bytes + sum([read.type.nbytes for read in kernel.reads]) >= _BYTES


def has_small_products(kernels: Sequence[Kernel]) -> bool:
    """Return whether kernels compute matrix products that are each too small for several threads."""
    flops = [_product_flops(kernel) for kernel in kernels if not kernel.constant]
    return 0 < max(flops, default=0) < _PRODUCT


def _product_flops(kernel: Kernel) -> int:
    """Return the operations of a kernel that sums products, or of one step of a recurrence; 0 for other kernels."""
    for node in kernel.nodes:
        operation = node.operation
        if isinstance(operation, Recurrence):
            return kernel.cost.flops // max(operation.length, 1)
        if operation.linear and not operation.elementwise and not operation.view and len(node.operands) > 1:
            return kernel.cost.flops
    return 0


class _Blas(AbstractContextManager[None]):
    """Number of threads of NumPy's BLAS: one inside ``with``, and the previous number afterwards.

    The number applies to the whole process; the thread that enters first sets and restores it. After an interrupt at
    any point, this ``with`` or the next one restores the number.
    """

    def __init__(self) -> None:
        # This makes NumPy load its BLAS, since threadpoolctl only sees loaded libraries.
        np.matmul(np.ones((2, 2)), np.ones((2, 2)))
        self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        # of libraries whose threads only the thread that first set their number may limit
        self._give_up = [
            library.clear_controlling_thread
            for library in self._libraries
            if hasattr(library, "clear_controlling_thread")
        ]
        self._previous: list[int] = []
        self._limits = False
        """whether BLAS has several threads outside ``with``"""
        self._owner: int | None = None
        # No other lock is acquired while this one is held, so it needs no place in a lock order.
        self._lock = threading.Lock()

    @property
    def threads(self) -> int:
        """Number of BLAS threads, or of processors if BLAS does not report it."""
        with self._lock:
            counts = self._counts() if self._owner is None else self._previous
        return max(counts) if counts else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1

    @property
    def is_owner(self) -> bool:
        """Whether this thread is inside ``with``."""
        return self._owner == threading.get_ident()

    def _counts(self) -> list[int]:
        return [library.get_num_threads() or 1 for library in self._libraries]

    def __enter__(self) -> None:
        try:
            with self._lock:
                if self._owner is None:
                    self._previous = self._counts()
                    self._owner = threading.get_ident()
                    # Limiting a single thread would cost as much as a dozen small kernels.
                    self._limits = max(self._previous, default=1) > 1
                    if self._limits:
                        for library in self._libraries:
                            library.set_num_threads(1)
        except BaseException:  # Python does not call __exit__ if __enter__ has failed
            self._restore()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._restore()
        except BaseException:  # interrupted halfway; restoring again is harmless
            self._restore()
            raise

    def _restore(self) -> None:
        with self._lock:
            if self._owner == threading.get_ident():
                if self._limits:
                    for library, count in zip(self._libraries, self._previous, strict=True):
                        library.set_num_threads(count)
                    for give_up in self._give_up:  # other threads may then use threadpoolctl
                        give_up()
                self._owner = None


@functools.cache
def _blas() -> _Blas:
    return _Blas()


class SharedWork(Protocol):
    """Work with which idle threads can help."""

    def help(self) -> object:
        """Do the part of the work that is ready; raise no error on a helper thread."""


class TileBatch:
    """Tasks that several threads take from ``waiting``; a failure empties ``waiting``."""

    def __init__(self, tasks: Sequence[Callable[[], None]]) -> None:
        self.waiting = deque(tasks)
        self.begun: dict[object, None] = {}
        """helpers that have started"""
        self.ended: dict[object, BaseException | None] = {}
        """helpers that have ended → their failures"""
        self.wake: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Run tasks until none is waiting."""
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
        """Run ``work`` on a helper thread; store a failure for the job's owner, and return it."""
        helper = object()
        failure: BaseException | None = None
        try:
            # A dict, not a lock and a counter, because no interrupt can split the one instruction that registers the
            # helper.
            self.begun[helper] = None
            with np.errstate(all="ignore"):  # as on the calling thread
                self.work()
        except BaseException as error:
            failure = error
        while True:
            try:
                # Not registered if an interrupt came first; the owner then does not wait for this helper.
                if helper in self.begun:
                    self.ended[helper] = failure
                self.wake.put(None)
                return failure
            except KeyboardInterrupt as error:  # retry until the owner knows that this thread has ended
                failure = error


class TileQueue(Protocol):
    """Threads of one run, which help with its jobs when they have no task."""

    def submit(self, job: TileBatch, helpers: int) -> None:
        """Ask up to ``helpers`` threads to help with ``job``."""

    def retract(self, job: TileBatch) -> None:
        """Prevent further threads from starting on ``job``."""


class _ThreadState(threading.local):
    """Index of a thread, and the run in which the thread takes part."""

    def __init__(self) -> None:
        self.number = 0
        self.scheduler: TileQueue | None = None


thread_state = _ThreadState()
"""state of the current thread: its index (0: not a worker), and the run in which it takes part"""


class _Pool:
    """Worker threads that help with jobs.

    It only uses queues and threads implemented in C: an interrupt inside ``threading`` or ``concurrent.futures``, which
    are written in Python, can leave a lock acquired forever.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[SharedWork] = SimpleQueue()
        self._threads = 0

    def wake(self, job: SharedWork, helpers: int) -> None:
        """Wake up to ``helpers`` threads; wake fewer, or none, while the process is exiting."""
        with suppress(RuntimeError):  # no more threads can be started, so the caller does all the work
            while self._threads < helpers:
                _thread.start_new_thread(self._serve, (self._threads + 1,))
                self._threads += 1
        # One queue entry per thread that may help; a thread that wakes too late finds no task and sleeps again.
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
    """Return the number of threads that share work, which is the number of BLAS threads."""
    return _blas().threads


def wake(work: SharedWork, helpers: int) -> None:
    """Wake up to ``helpers`` workers as soon as they are idle."""
    _pool().wake(work, helpers)


def single_threaded_products() -> AbstractContextManager[None]:
    """Limit BLAS to one thread inside ``with``, since its idle threads would slow down the workers."""
    return _blas()


def share(tasks: Sequence[Callable[[], None]]) -> None:
    """Run all tasks on this thread and on workers; the first failure stops the remaining tasks and is raised.

    The function returns, or raises, only when no task is running.
    """
    blas = _blas()
    thread_count = min(len(tasks), blas.threads)
    if thread_count < 2:  # a single task may use all threads of BLAS
        for task in tasks:
            task()
        return
    job, scheduler = TileBatch(tasks), thread_state.scheduler
    interrupt: KeyboardInterrupt | None = None
    with nullcontext() if blas.is_owner else blas:
        try:
            if scheduler is None:
                _pool().wake(job, thread_count - 1)
            else:
                scheduler.submit(job, thread_count - 1)
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
                except KeyboardInterrupt as error:  # retry, because helpers may still write to this thread's memory
                    interrupt = error
    if interrupt is not None:
        raise interrupt
    for failure in tuple(job.ended.values()):  # a copy, since a late helper may add itself at the same time
        if failure is not None:
            raise failure


def _forget() -> None:
    """Forget the threads of the parent process in a forked process, where they do not exist."""
    _pool.cache_clear()
    _blas.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
