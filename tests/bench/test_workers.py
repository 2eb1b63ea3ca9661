"""Plans and training on several processes against one process, and the accuracy of ``plan.estimate``.

Each process has one BLAS thread, including the one for comparison. Values are compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.plan import Options, plan
from explorer.run.calibrate import measured_cost_model
from explorer.run.diagnosis.scale_estimate import scale_estimate
from explorer.run.execution.executors import EXECUTORS, run_spread
from explorer.run.execution.program import Program
from explorer.train.compiled import parameter
from tests.bench.contest import samples, table

pytestmark = [pytest.mark.bench]

random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1, user_api="blas"):
        yield


def products(count: int, size: int) -> tuple[list[ex.Expr], dict[ex.Expr, Any]]:
    """Return branches of products over one input with small results, and the input's value, which each run sends."""
    x = parameter(ex.TensorType((size, size), np.float32), "x")
    roots = [ex.tanh(ex.tanh(x * (1.0 + n) @ x) @ x).sum(axis=0) for n in range(count)]
    return roots, {x: (random.normal(size=(size, size)) / np.sqrt(size)).astype(np.float32)}


PROGRAMS = {"8 branches of 200": (8, 200), "8 branches of 600": (8, 600), "16 branches of 1000": (16, 1000)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_estimates(name: str) -> None:
    """Print times on 1, 2 and 4 processes with estimates from prices measured on this machine."""
    roots, inputs = products(*PROGRAMS[name])
    planned = plan(roots, Options(without=("batch",), cost_model=measured_cost_model()))
    alone = Program(planned)

    def here() -> list[Any]:
        alone.bind(inputs)
        EXECUTORS["simple"].run(alone, None)
        return alone.take()

    expected = here()
    rows = []
    for count in (1, 2, 4):
        with ex.Workers(count, latency=1e-9, overhead=0, bandwidth=1e12) as workers:  # send everything
            spread = Program(planned)

            def there(spread: Program = spread, workers: ex.Workers = workers) -> list[Any]:
                spread.bind(inputs)
                run_spread(spread, None, workers)
                return spread.take()

            for value, other in zip(there(), expected, strict=True):
                np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-5)
            times = samples({"here": here, "there": there}, rounds=3)
        paper = scale_estimate(planned, count)
        here_ms, there_ms, paper_ms = median(times["here"]), median(times["there"]), paper.micros / 1000
        figures = [here_ms, paper.alone / 1000, there_ms, paper_ms]
        rows.append([str(count), *[f"{ms:.1f}" for ms in figures], f"{paper_ms / there_ms:.2f}"])
    header = ["processes", "alone, ms", "estimate", "on them, ms", "estimate", "estimate : measured"]
    print(table(name, header, rows, ["numpy", "distributed"]))


@pytest.mark.parametrize("hidden", [32, 1024])
def test_training(hidden: int) -> None:
    """Compare a training step of two shards on two processes with a local one; the difference is Dask's overhead."""
    images, labels = random.normal(size=(512, 256)), random.integers(0, 10, 512)
    modules = {name: _module(hidden) for name in ("here", "2 processes")}

    def step(name: str) -> Callable[[], float]:
        return lambda: float(modules[name].train_on(images, labels))

    with ex.parallelize(modules["2 processes"], 2):
        for _ in range(3):
            losses = [step(name)() for name in modules]
            assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        times = samples({name: step(name) for name in modules}, rounds=5, burst=3)
    middle = {name: median(spent) for name, spent in times.items()}
    rows = [[name, f"{ms:.2f}", f"{ms - middle['here']:.2f}"] for name, ms in middle.items()]
    print(table(f"a training step, 256-{hidden}-10, 512 samples", ["", "ms", "more than here"], rows, ["numpy"]))


def _module(hidden: int) -> Any:
    module = ex.train.Module("m", loss=ex.train.CrossEntropy(), optimizer=ex.train.SGD(0.01))
    for node in (ex.train.Linear("hidden", 256, hidden), ex.tanh, ex.train.Linear("scores", hidden, 10)):
        module.add_node(node)
    module.attach()
    return module
