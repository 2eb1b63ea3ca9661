"""Workers share pieces: all pieces are computed, the first failure stops the others, and BLAS has its threads again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.run.runtime import thread_pool
from explorer.run.runtime.thread_pool import share, single_threaded_products
from tests.support.threads import blas_threads


def test_every_task_runs_once() -> None:
    done: list[int] = []
    share([partial(done.append, number) for number in range(100)])
    assert sorted(done) == list(range(100))


def test_the_first_failure_stops_the_rest_and_is_raised() -> None:
    done: list[int] = []

    def task(number: int) -> None:
        if number == 3:
            raise ValueError("the fourth piece")
        done.append(number)

    before = blas_threads()
    with pytest.raises(ValueError, match="the fourth piece"):
        share([partial(task, number) for number in range(100_000)])
    assert len(done) < 100_000
    assert blas_threads() == before
    share([partial(done.append, -1)] * 2)
    assert done[-2:] == [-1, -1]


def test_floating_point_events_on_workers_give_values() -> None:
    results = [np.zeros(1) for _ in range(32)]

    def divide(out: np.ndarray[Any, Any]) -> None:
        np.divide(1.0, 0.0, out=out)

    with np.errstate(all="ignore"):
        share([partial(divide, out) for out in results])
    assert all(np.isinf(out[0]) for out in results)


def test_blas_has_one_thread_inside_and_its_previous_number_afterwards() -> None:
    """For any nesting on any thread, the first one to enter sets and restores the number."""
    before = blas_threads()
    inside, leave = threading.Event(), threading.Event()
    seen: list[list[int]] = []

    def hold() -> None:
        with single_threaded_products(), single_threaded_products():
            seen.append(blas_threads())
            inside.set()
            leave.wait()

    for _ in range(2):
        inside.clear()
        leave.clear()
        other = threading.Thread(target=hold)
        other.start()
        assert inside.wait(30)
        with single_threaded_products():
            seen.append(blas_threads())
        seen.append(blas_threads())
        leave.set()
        other.join()
        assert blas_threads() == before
        with single_threaded_products():
            seen.append(blas_threads())
        assert blas_threads() == before
    assert seen == [[1] * len(before)] * 8


def test_the_first_thread_to_enter_may_leave_first() -> None:
    """A thread that leaves later changes nothing."""
    before = blas_threads()
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with single_threaded_products():
            inside.set()
            leave.wait()

    with single_threaded_products():
        other = threading.Thread(target=hold)
        other.start()
        assert inside.wait(30)
    assert blas_threads() == before
    leave.set()
    other.join()
    assert blas_threads() == before


class CountedThreads(ex.Elementwise):
    """x; records the thread counts of BLAS while it runs."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3)),)
    counts: ClassVar[list[int]] = []

    def kernel(self, out: Any, x: Any) -> Any:
        self.counts.extend(blas_threads())
        np.copyto(out, x)
        return out


@pytest.mark.spec("P-11")
@pytest.mark.parametrize(("size", "expected"), [(64, 1), (160, 2)])
def test_small_products_use_one_blas_thread(size: int, expected: int) -> None:
    """Several threads save a few µs if they are awake, but cost milliseconds on a busy machine."""
    x = ex.tensor(np.ones((size, size)))
    with threadpool_limits(2, user_api="blas"):
        for value in (CountedThreads()(x @ x), CountedThreads()(x)):
            CountedThreads.counts.clear()
            ex.evaluate(value, without=("fuse", "constants"))
            assert set(CountedThreads.counts) == {expected if value.operands[0] is not x else 2}
            assert set(blas_threads()) == {2}


def test_interrupts_are_raised_after_all_tasks_stopped() -> None:
    """Even after two interrupts a run waits for a worker's piece, which writes into memory in use."""
    begun, done = threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        threading.Event().wait(0.4)
        done.set()

    def task() -> None:
        if threading.current_thread() is not threading.main_thread():
            long()
        else:
            begun.wait(30)
            main = threading.main_thread().ident
            threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
            raise KeyboardInterrupt

    with threadpool_limits(2, user_api="blas"), pytest.raises(KeyboardInterrupt):
        share([task, task])
    assert done.is_set()


def test_the_calling_thread_works_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """This may happen at the end of the process."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool)
    monkeypatch.setattr(thread_pool._thread, "start_new_thread", refuse)
    done: list[int] = []
    with threadpool_limits(2, user_api="blas"):
        share([partial(done.append, number) for number in range(9)])
    assert done == [*range(9)]


def test_a_busy_worker_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has computed all its pieces does not wait for workers that are busy with others."""
    pool, leave = thread_pool._Pool(), threading.Event()
    monkeypatch.setattr(thread_pool, "_pool", lambda: pool)
    other = thread_pool.TileBatch([partial(leave.wait, 10)])
    pool.wake(other, 1)
    done: list[int] = []
    with threadpool_limits(2, user_api="blas"):
        share([partial(done.append, number) for number in range(9)])
    assert done == [*range(9)]
    assert not other.ended
    leave.set()


def test_a_forked_process_has_its_own_workers() -> None:
    """A process forked after a parallel run computes the same."""
    program = """
import os, sys
import numpy as np
from threadpoolctl import threadpool_limits
import explorer as ex
from explorer.run.runtime.thread_pool import share
x = np.random.default_rng(0).normal(size=(4, 300, 300)).astype("float32")
def value(): return ex.evaluate(ex.tanh(ex.tensor(x) @ x[0]) * 2.0)
with threadpool_limits(2, user_api="blas"):
    before = value()
    child = os.fork()
    same = np.array_equal(value(), before)
    if child == 0:
        os._exit(0 if same else 1)
    sys.exit(0 if same and os.waitpid(child, 0)[1] == 0 else 1)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("place", [1, 2, 3])
def test_an_interrupt_restores_the_threads_of_blas(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may arrive while BLAS's thread count is set or restored."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        blas = thread_pool._Blas()
        (library, *_) = blas._libraries
        calls: list[int] = []
        set_threads = library.set_num_threads

        def interrupted(count: int) -> None:
            calls.append(count)
            if place < 3:
                set_threads(count)
            if len(calls) == min(place, 2):
                raise KeyboardInterrupt
            set_threads(count)

        monkeypatch.setattr(library, "set_num_threads", interrupted)
        with pytest.raises(KeyboardInterrupt), blas:
            assert blas.is_owner
        assert blas_threads() == before
        assert not blas.is_owner
        with blas:
            assert blas_threads() == [1] * len(before)
        assert blas_threads() == before
