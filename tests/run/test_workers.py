"""Workers share pieces: all are made, the first failure stops the rest, and BLAS has its threads back."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from explorer.run.workers import share, single_threaded_products


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


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
