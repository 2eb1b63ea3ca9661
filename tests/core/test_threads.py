"""Several threads record concurrently: types and operations are interned across threads, traces are separate."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import TensorType
from explorer.ops.creation.constants import Full

THREADS = 8


@pytest.fixture(autouse=True)
def often_interrupted() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[], Any]) -> list[Any]:
    """Return the results of a function called in several threads at the same time."""
    start = threading.Barrier(THREADS)
    results: list[Any] = []

    def run() -> None:
        start.wait()
        results.append(work())

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == THREADS
    return results


def test_equal_types_are_one_object_in_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(THREADS)

    def product(sizes: Any) -> int:
        barrier.wait(timeout=10)
        return int(np.prod(sizes))

    monkeypatch.setattr("explorer.core.types.tensor_type.math", SimpleNamespace(prod=product))
    kinds = together(lambda: TensorType((7, 1009), np.int16))
    assert all(kind is kinds[0] for kind in kinds)


def test_equal_operations_are_one_object_in_all_threads() -> None:
    first, *others = together(lambda: [Full(float(number), (3,), np.dtype("float64")) for number in range(400)])
    for other in others:
        assert all(a is b for a, b in zip(first, other, strict=True))


def test_a_function_is_traced_by_several_threads_concurrently() -> None:
    inside = threading.Barrier(THREADS)

    @ex.function
    def double(a: ex.Expr) -> ex.Expr:
        if double.traces == 0:
            inside.wait(timeout=10)
        return a * 2

    result = together(lambda: ex.evaluate(double(ex.tensor([1.0, 2.0]))).tolist())
    assert result == [[2.0, 4.0]] * THREADS
