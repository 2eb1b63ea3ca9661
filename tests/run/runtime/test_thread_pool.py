"""Workers share pieces: all are made, the first failure stops the rest, and BLAS has its threads back."""

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


def test_floating_point_events_on_workers_are_values() -> None:
    results = [np.zeros(1) for _ in range(32)]

    def divide(out: np.ndarray[Any, Any]) -> None:
        np.divide(1.0, 0.0, out=out)

    with np.errstate(all="ignore"):
        share([partial(divide, out) for out in results])
    assert all(np.isinf(out[0]) for out in results)


def test_blas_has_one_thread_inside_and_its_own_after() -> None:
    """However they nest, and on whichever thread: what comes first rules, and sets back what it found."""
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


def test_who_comes_first_may_leave_first() -> None:
    """A thread that is still inside when the ruling one leaves changes nothing when it leaves itself."""
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
    """x; the numbers of BLAS' threads are noted meanwhile."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3)),)
    counts: ClassVar[list[int]] = []

    def kernel(self, out: Any, x: Any) -> Any:
        self.counts.extend(blas_threads())
        np.copyto(out, x)
        return out


@pytest.mark.spec("P-11")
@pytest.mark.parametrize(("size", "expected"), [(64, 1), (160, 2)])
def test_small_products_have_one_thread_of_blas(size: int, expected: int) -> None:
    """Its threads save a few µs of such a product when they are awake, and cost milliseconds on a busy machine."""
    x = ex.tensor(np.ones((size, size)))
    with threadpool_limits(2, user_api="blas"):
        for value in (CountedThreads()(x @ x), CountedThreads()(x)):
            CountedThreads.counts.clear()
            ex.evaluate(value, without=("fuse", "constants"))
            assert set(CountedThreads.counts) == {expected if value.operands[0] is not x else 2}
            assert set(blas_threads()) == {2}


def test_interrupts_are_raised_when_no_task_runs_any_more() -> None:
    """Interrupted twice, a run still waits for the piece that a worker is at: it writes into memory in use."""
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


def test_work_is_done_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without another thread, as at the end of the process, the one that asks does all."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool)
    monkeypatch.setattr(thread_pool._thread, "start_new_thread", refuse)
    done: list[int] = []
    with threadpool_limits(2, user_api="blas"):
        share([partial(done.append, number) for number in range(9)])
    assert done == [*range(9)]


def test_a_busy_worker_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has done all its pieces itself does not wait for workers that are at others' pieces."""
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


def test_a_forked_process_has_workers_of_its_own() -> None:
    """A process forked after a shared run computes the same."""
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
def test_an_interrupt_leaves_blas_its_threads(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while BLAS's thread count is set or set back, a run leaves it as it found it."""
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
            assert blas.ruled
        assert blas_threads() == before
        assert not blas.ruled
        with blas:
            assert blas_threads() == [1] * len(before)
        assert blas_threads() == before
