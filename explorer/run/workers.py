"""Workers: threads that share the pieces of a kernel, each with one thread of BLAS.

A product that BLAS shares among its own threads reads what one thread has just gathered, from another core's cache:
pieces that gather and multiply for themselves take half the time. There are as many workers as BLAS has threads, so
that ``OPENBLAS_NUM_THREADS``, ``OMP_NUM_THREADS`` and threadpoolctl rule both.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress

import numpy as np
from threadpoolctl import ThreadpoolController

from explorer.plan.schedule import Kernel

_FLOPS, _BYTES = 1 << 23, 1 << 21
"""what a kernel computes, or moves, from which it is shared among threads: waking one takes 50 µs"""


def worth_sharing(kernel: Kernel) -> bool:
    """Whether a kernel has work for several threads."""
    return kernel.flops >= _FLOPS or kernel.bytes + sum([read.type.nbytes for read in kernel.reads]) >= _BYTES


class _Blas(AbstractContextManager[None]):
    """The threads of the BLAS that NumPy multiplies with: one inside ``with``, as before after it.

    Its number is the process's, and threadpoolctl lets one thread at a time rule it: the thread that came first
    sets it and sets it back; for others meanwhile inside it is as that thread has it.
    """

    def __init__(self) -> None:
        np.matmul(np.ones((2, 2)), np.ones((2, 2)))  # loaded by now, whatever loads it late
        self._controller = ThreadpoolController().select(user_api="blas")
        self._threads = 0
        self._owner: int | None = None
        self._depth = 0
        self._lock = threading.Lock()

    @property
    def threads(self) -> int:
        """How many threads it uses; as many as the process has processors where it does not tell."""
        with self._lock:
            return self._threads if self._owner is not None else self._count()

    def _count(self) -> int:
        counts = [library.num_threads or 1 for library in self._controller.lib_controllers]
        return max(counts) if counts else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            if self._owner is None:
                self._threads = self._count()
                self._limit = self._controller.limit(limits=1)
                self._limit.__enter__()
                self._owner = me
            if self._owner == me:
                self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._owner == threading.get_ident():
                self._depth -= 1
                if not self._depth:
                    self._owner = None
                    self._limit.__exit__(None, None, None)


@functools.cache
def _blas() -> _Blas:
    return _Blas()


@functools.cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="explorer")


def single_threaded_products() -> AbstractContextManager[None]:
    """BLAS keeps to one thread inside ``with``: its own threads, once awake, wait busily for more and slow workers."""
    return _blas()


def share(tasks: Sequence[Callable[[], None]]) -> None:
    """Run all tasks, on this thread and on workers; the first failure stops the rest and is raised here.

    Returns, or raises, when no task runs any more.
    """
    blas = _blas()
    threads = blas.threads
    if min(len(tasks), threads) < 2:
        for task in tasks:
            task()
        return
    waiting = deque(tasks)
    running: list[Future[None]] = []
    with blas:
        try:
            pool = _pool(threads - 1)
            with suppress(RuntimeError):  # no thread to be had, as at the end of the process: this one does the work
                for _ in range(min(len(tasks), threads) - 1):
                    running.append(pool.submit(_help, waiting))  # noqa: PERF401  # kept, though the next may fail
            _work(waiting)
        finally:
            waiting.clear()  # after a failure or an interrupt
            failures = _ended(running)
    for failure in failures:
        if failure is not None:
            raise failure


def _ended(running: Sequence[Future[None]]) -> list[BaseException | None]:
    """The failures of those that began, when all have ended; an interrupt waits for that too, and is raised then."""
    found: list[BaseException | None] = []
    interrupt: KeyboardInterrupt | None = None
    for future in running:
        while not future.cancel():
            try:
                found.append(future.exception())
                break
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
    return found


def _work(waiting: deque[Callable[[], None]]) -> None:
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


def _help(waiting: deque[Callable[[], None]]) -> None:
    with np.errstate(all="ignore"):  # as on the thread that asked
        _work(waiting)


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    _pool.cache_clear()
    _blas.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
