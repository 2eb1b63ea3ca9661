"""Threads that share compiled kernels: any number of them computes the same bits, and interrupts stop all of them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import explorer as ex
from explorer.run.native import library, native_kernel

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> ex.Expr:
    return ex.tensor(RNG.normal(size=shape).astype(np.float32))


def stack(x: ex.Expr, rows: int) -> ex.Expr:
    return ex.reshape(x, (-1, rows, x.shape[1]))


X, ROWS, IMAGES, FILTERS = numbers(3, 1 << 19), numbers(700, 1000), numbers(8, 32, 60, 60), numbers(32, 1, 3, 3)
COLUMN, LONG = numbers(700, 1), numbers(40, 40_000)
WEIGHTS, MORE = numbers(1000, 320), numbers(500, 32, 3, 3)
PROGRAMS: dict[str, Callable[[], ex.Expr]] = {
    "chain": lambda: ex.exp(ex.tanh(X)) - X,
    "broadcast chain": lambda: ex.tanh(ROWS * ROWS[0] + COLUMN) * 2,
    "softmax": lambda: ex.softmax(ROWS * 3),
    "long rows": lambda: ex.sum(ex.tanh(LONG) * LONG, axis=1),
    "columns": lambda: ex.sum(ex.tanh(LONG) * LONG, axis=0),
    "layer norm": lambda: ex.layer_norm(ROWS, ROWS[0], ROWS[1]),
    "product": lambda: ex.relu(ROWS @ WEIGHTS + 1),
    "product of a transposed matrix": lambda: ex.relu(ROWS @ ROWS[:64].T + 1),
    "product of stacks": lambda: ex.relu(stack(ROWS, 100) @ np.swapaxes(stack(ROWS[:448], 64), 1, 2)),
    "convolution": lambda: -ex.transpose(ex.conv2d(IMAGES, MORE[:48], padding=1), (0, 2, 3, 1)),
    "convolution of few pixels": lambda: -ex.transpose(ex.conv2d(IMAGES[:1, :, :12, :12], MORE), (0, 2, 3, 1)),
    "after a product": lambda: ex.relu(ROWS[:, :700] @ ROWS[:, :999] + ROWS[0, :999]),
    "depthwise convolution": lambda: ex.relu(ex.conv2d(IMAGES, FILTERS, padding=1, groups=32)),
    "pooling": lambda: ex.max_pool2d(IMAGES, (3, 3), strides=(1, 1)) * 2,
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Functions that are called before each part of a kernel; kernels have many parts."""
    hooks: list[Callable[[], None]] = []
    loaded = library._function

    def watched(code: ctypes.CDLL, name: str) -> library.Function:
        function = loaded(code, name)

        def call(arrays: Any, start: int, stop: int) -> None:
            for hook in hooks:
                hook()
            function(arrays, start, stop)

        return call

    monkeypatch.setattr(library, "_function", watched)
    monkeypatch.setattr(native_kernel, "_PART", 1 << 14)
    return hooks


def blas_threads() -> int:
    return max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")


@pytest.mark.spec("K-4", "K-6")
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_number_of_threads_computes_the_same_bits(name: str, compiler: None, calls: list[Any]) -> None:
    """Which rows a thread computes changes no bit, nor does another run."""
    parts: list[int] = []
    calls.append(lambda: parts.append(threading.get_ident()))
    values = []
    for count in (1, 2, 4, 4):
        with threadpool_limits(count, user_api="blas"):
            plan = ex.EvalPlan(kernels="native")
            handle = plan.register(PROGRAMS[name]())
            plan.eval()
            values.append(handle.data())
    assert len(parts) >= 4 * len(values)  # threads share them
    for value in values[1:]:
        np.testing.assert_array_equal(value.view(np.int32), values[0].view(np.int32))


@pytest.mark.spec("K-6")
def test_blas_has_one_thread_while_threads_share_a_kernel(compiler: None, calls: list[Callable[[], None]]) -> None:
    """There are never more threads than BLAS has, which has its threads again after the kernel."""
    seen: list[tuple[int, int]] = []
    calls.append(lambda: seen.append((threading.get_ident(), blas_threads())))
    with threadpool_limits(4, user_api="blas"):
        ex.evaluate(PROGRAMS["chain"](), kernels="native")
        assert blas_threads() == 4
    assert {count for _, count in seen} == {1}
    assert len(seen) > 50
    assert len({thread for thread, _ in seen}) <= 4


@pytest.mark.spec("K-6")
def test_blas_keeps_its_threads_while_a_kernel_has_one_part(
    compiler: None, calls: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changing the number of threads takes as long as a small kernel."""
    monkeypatch.setattr(native_kernel, "_PART", 1 << 30)
    seen: list[int] = []
    calls.append(lambda: seen.append(blas_threads()))
    with threadpool_limits(4, user_api="blas"):
        ex.evaluate(PROGRAMS["chain"](), kernels="native")
    assert seen == [4]


@pytest.mark.spec("K-6")
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", ["chain", "softmax", "depthwise convolution"])
def test_an_interrupt_stops_all_threads(
    name: str, threads: int, compiler: None, calls: list[Callable[[], None]]
) -> None:
    """When the interrupt is raised, no thread writes to the result, and the next run computes the same bits."""
    expected = ex.evaluate(PROGRAMS[name](), kernels="native")
    begun: list[int] = []

    def interrupt() -> None:
        begun.append(threading.get_ident())
        if len(begun) == 5:
            raise KeyboardInterrupt

    calls.append(interrupt)
    with threadpool_limits(threads, user_api="blas"):
        with pytest.raises(KeyboardInterrupt):
            ex.evaluate(PROGRAMS[name](), kernels="native")
        count = len(begun)
        assert count < 5 + threads
        assert blas_threads() == threads
        np.testing.assert_array_equal(ex.evaluate(PROGRAMS[name](), kernels="native"), expected)
        assert len(begun) > count + 5
