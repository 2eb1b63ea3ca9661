"""Executors compared: the same programs with two threads each, and values compared to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.plan import Options, plan
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.program import Program
from tests.bench.contest import samples, table

pytestmark = [pytest.mark.bench]

THREADS = 2
random = np.random.default_rng(0)


def tensor(*shape: int) -> ex.Expr:
    return ex.tensor(random.normal(size=shape).astype(np.float32) / np.float32(np.sqrt(shape[-1])))


def products() -> list[ex.Expr]:
    return [ex.tanh(ex.tanh(tensor(384, 384) @ tensor(384, 384)) @ tensor(384, 384)) for _ in range(8)]


def convolutions() -> list[ex.Expr]:
    images = tensor(1, 32, 56, 56)
    return [ex.relu(ex.conv2d(images, tensor(32, 32, 3, 3), padding=(1, 1))) for _ in range(8)]


def elementwise() -> list[ex.Expr]:
    results = []
    for scale in range(2, 10):
        x = tensor(1_000_000)
        for _ in range(5):
            x = ex.tanh(x * (1.0 / scale)) + 0.5
        results.append(x)
    return results


def sums() -> list[ex.Expr]:
    """Return reductions, which run in one piece on one thread with every executor."""
    return [ex.cumsum(ex.tanh(tensor(1000, 1000)), 0).max(axis=1) for _ in range(8)]


def one_chain() -> list[ex.Expr]:
    x = tensor(384, 384)
    for _ in range(16):
        x = ex.tanh(x @ tensor(384, 384))
    return [x]


def small() -> list[ex.Expr]:
    """Return four hundred kernels of a few µs each, none of which is worth waking a thread."""
    return [ex.tanh(tensor(16, 16) @ tensor(16, 16)).sum(axis=0) for _ in range(200)]


PROGRAMS = (products, convolutions, elementwise, sums, one_chain, small)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_times(make: Callable[[], list[ex.Expr]]) -> None:
    """Print times of repeated runs of a prepared program in ms, dag's ratio to simple, and both planned peaks."""
    roots = make()
    programs = {
        name: Program(plan(roots, Options(lanes=executor.lanes, without=("batch",))))
        for name, executor in EXECUTORS.items()
    }

    def runner(name: str) -> Callable[[], list[np.ndarray]]:  # type: ignore[type-arg]
        def run() -> list[np.ndarray]:  # type: ignore[type-arg]
            EXECUTORS[name].run(programs[name], None)
            return programs[name].take()

        return run

    runs = {name: runner(name) for name in programs}
    with threadpool_limits(THREADS, user_api="blas"):
        expected = runs["simple"]()
        for run in runs.values():
            assert all(np.array_equal(a, b) for a, b in zip(run(), expected, strict=True))
        times = samples(runs, rounds=7, burst=4)
    middle = {name: median(spent) for name, spent in times.items()}
    rows = [
        [
            name,
            f"{middle[name]:.2f}",
            f"{min(spent):.2f}",
            f"{middle[name] / middle['simple']:.2f}",
            f"{programs[name].planned.schedule.peak / 2**20:.1f}",
            str(len(programs[name].chains.kernels)),
        ]
        for name, spent in times.items()
    ]
    header = ["", "ms (median)", "least", "it : simple", "peak MB", "chains"]
    title = f"{make.__name__.replace('_', ' ')}: {len(programs['simple'].planned.schedule.kernels)} kernels"
    print(table(f"{title}, {THREADS} threads", header, rows, ["numpy"]))
