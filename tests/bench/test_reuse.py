"""Overhead of a second evaluation of one structure besides its kernels, and of recording times."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.bench.contest import contest, table
from tests.bench.programs import evaluated, one_thread

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

SIZES = (100, 1_000, 10_000)


def program(x: Any, tanh: Callable[[Any], Any], count: int) -> Any:
    """Return ``count`` operations with almost no work."""
    y = x
    for _ in range(count // 2):
        y = tanh(y) + x
    return y


def test_second_evaluation() -> None:
    """Target: ≤ 2 µs per node besides the kernels' time; jax.jit's overhead is per call, not per node."""
    import jax
    import jax.numpy as jnp

    rows = []
    given = np.linspace(0, 1, 8, dtype=np.float32)
    with one_thread():
        for count in SIZES:
            x = ex.tensor(given)
            root = program(x, ex.tanh, count)
            plan = ex.EvalPlan()
            plan.register(root)
            value = Program(plan.prepare().planned)

            def execute(value: Program = value) -> Any:
                run_simple(value)
                return value.take()

            def loop(count: int = count) -> Any:
                return program(given, np.tanh, count)

            runs: dict[str, Callable[[], Any]] = {
                "recorded": lambda count=count, x=x: program(x, ex.tanh, count),  # type: ignore[misc]
                "evaluated": lambda root=root: evaluated([root]),  # type: ignore[misc]
                "execution": execute,
                "NumPy": loop,
            }
            np.testing.assert_allclose(runs["evaluated"]()[0], loop(), rtol=1e-5)
            if count <= 1_000:  # XLA would take minutes to compile more
                compiled = jax.jit(lambda x, count=count: program(x, jnp.tanh, count))
                on_device = jnp.asarray(given)
                runs["jax.jit call"] = lambda f=compiled, x=on_device: np.asarray(f(x))  # type: ignore[misc]
                np.testing.assert_allclose(runs["jax.jit call"](), loop(), rtol=1e-5)
            spent = {
                name: f"{ms / count * 1000:.2f}"
                for name, ms in contest(runs, rounds=5, burst=5, clock=process_time).items()
            }
            beside = float(spent["evaluated"]) - float(spent["execution"])
            order = ("recorded", "evaluated", "execution", "NumPy", "jax.jit call")
            rows.append([f"{count:,}", *[spent.get(name, "–") for name in order], f"{beside:.2f}"])
    header = ["nodes", "recorded", "evaluated", "execution alone", "NumPy", "jax.jit call", "evaluated − execution"]
    print(table("a second evaluation, µs a node, 1 thread", header, rows, ["numpy", "jax"]))
    assert len(rows) == len(SIZES)


def test_times_recorded() -> None:
    """Target: ≤ 1.1 ×."""
    rows = []
    rng = np.random.default_rng(0)
    small = ex.tensor(rng.random(8, np.float32))
    weights = ex.tensor(rng.random((256, 256), np.float32) / 256)
    batch = ex.tensor(rng.random((64, 256), np.float32))
    roots = {
        "1,000 operations on 8 numbers": program(small, ex.tanh, 1_000),
        "100 layers 256 → 256 of 64 rows": program(batch, lambda y: ex.tanh(y @ weights), 200),
    }
    with one_thread():
        for name, root in roots.items():
            runs: dict[str, Callable[[], Any]] = {
                record: lambda root=root, record=record: evaluated([root], record=record)  # type: ignore[misc]
                for record in ("off", "times")
            }
            np.testing.assert_array_equal(runs["off"]()[0], runs["times"]()[0])
            times = contest(runs, rounds=7, burst=11, clock=process_time)
            rows.append([name, *[f"{spent:.3f}" for spent in times.values()], f"{times['times'] / times['off']:.3f}"])
    print(table("recording of times, ms, 1 thread", ["", "off", "times", "times : off"], rows, ["numpy"]))
    assert len(rows) == len(roots)
