"""Reductions with their producers: a chain into a sum, and others, over 1e4, 1e6 and 1e7 float32.

numexpr adds float32 sequentially: its sum of 1e7 products is off by a hundredth, the others' by a millionth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.bench.contest import contest, table
from tests.bench.programs import chain, one_thread

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

SIDES = ((100, 100), (1000, 1000), (2500, 4000))
PACKAGES = ["numpy", "numexpr", "torch"]
Array = np.ndarray[Any, np.dtype[np.float32]]
Run = Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """One computation on x and y in each contestant's code, or ``None`` if it is not available."""

    explorer: Callable[[Any, Any], Any]
    numpy: Callable[[Any, Any], Any]
    torch: Callable[[Any, Any, Any], Any]
    numexpr: str | None


def _softmax(x: Any, exp: Any, largest: Any) -> Any:
    raised = exp(x - largest)
    return raised / raised.sum(axis=1, keepdims=True)


def _layer_norm(x: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + np.float32(1e-5))


WORKS: dict[str, Work] = {
    "a chain into a sum": Work(
        lambda x, y: chain(x, y).sum(),
        lambda x, y: chain(x, y).sum(),
        lambda x, y, torch: chain(x, y).sum(),
        "sum(abs(((x * a + y) * x - y) * b * (x + c) - y) * d)",
    ),
    "a chain into sums of columns": Work(
        lambda x, y: chain(x, y).sum(axis=0),
        lambda x, y: chain(x, y).sum(axis=0),
        lambda x, y, torch: chain(x, y).sum(0),
        "sum(abs(((x * a + y) * x - y) * b * (x + c) - y) * d, axis=0)",
    ),
    "(x * y).sum()": Work(
        lambda x, y: (x * y).sum(), lambda x, y: (x * y).sum(), lambda x, y, torch: (x * y).sum(), "sum(x * y)"
    ),
    "sqrt(square(x).sum())": Work(
        lambda x, y: ex.sqrt(ex.square(x).sum()),
        lambda x, y: np.sqrt(np.square(x).sum()),
        lambda x, y, torch: torch.sqrt(torch.square(x).sum()),
        None,
    ),
    "mean squared error": Work(
        lambda x, y: ex.mean(ex.square(x - y)),
        lambda x, y: np.mean(np.square(x - y)),
        lambda x, y, torch: torch.mean(torch.square(x - y)),
        None,
    ),
    "layer norm": Work(
        lambda x, y: ex.layer_norm(x),
        lambda x, y: _layer_norm(x),
        lambda x, y, torch: torch.nn.functional.layer_norm(x, x.shape[1:]),
        None,
    ),
    "softmax from its parts": Work(
        lambda x, y: _softmax(x, ex.exp, ex.max(x, axis=1, keepdims=True)),
        lambda x, y: _softmax(x, np.exp, np.max(x, axis=1, keepdims=True)),
        lambda x, y, torch: _softmax(x, torch.exp, torch.amax(x, 1, keepdim=True)),
        None,
    ),
}


def contestants(work: Work, x: Array, y: Array) -> dict[str, Run]:
    """Return explorer's complete evaluation and its program alone, fused and unfused; NumPy, torch, and numexpr if
    possible."""
    import numexpr
    import torch

    x_, y_, x_torch, y_torch = ex.tensor(x), ex.tensor(y), torch.from_numpy(x), torch.from_numpy(y)
    numexpr.set_num_threads(1)

    def program(*without: str) -> Run:
        plan = ex.EvalPlan(without=without)
        plan.register(work.explorer(x_, y_))
        value = Program(plan.prepare().planned)

        def execute() -> Any:
            run_simple(value)
            return value.take()[0]

        return execute

    def by_torch() -> Any:
        with torch.inference_mode():
            return work.torch(x_torch, y_torch, torch).numpy()

    runs: dict[str, Run] = {
        "explorer": lambda: ex.evaluate(work.explorer(x_, y_)),
        "explorer, execution": program(),
        "explorer, execution, without fuse": program("fuse"),
        "NumPy": lambda: work.numpy(x, y),
        "torch": by_torch,
    }
    if work.numexpr is not None:
        values = {
            "x": x,
            "y": y,
            **{name: np.float32(n) for name, n in zip("abcd", (1.5, 0.5, 2.0, 0.25), strict=True)},
        }
        runs["numexpr"] = lambda: numexpr.evaluate(str(work.numexpr), values)
    return runs


@pytest.mark.parametrize("name", WORKS)
def test_reductions(name: str) -> None:
    """Target: ≤ 0.5 × NumPy as written, at 1e7, and no slower than without fuse at any size."""
    rows: dict[str, list[str]] = {}
    with one_thread():
        for shape in SIDES:
            rng = np.random.default_rng(shape[0])
            x, y = (rng.random(shape, np.float32) for _ in range(2))
            runs = contestants(WORKS[name], x, y)
            expected = WORKS[name].numpy(x.astype(np.float64), y.astype(np.float64))
            for contestant, run in runs.items():
                off = 2e-2 if contestant == "numexpr" else 1e-4
                np.testing.assert_allclose(run(), expected, rtol=off, atol=1e-4, err_msg=contestant)
            times = contest(runs, rounds=5, burst=50 if x.size < 1_000_000 else 4, clock=process_time)
            for contestant, spent in times.items():
                rows.setdefault(contestant, [contestant]).extend(
                    [f"{spent * 1000:,.0f}", f"{spent / times['NumPy']:.2f}"]
                )
    header = ["", *[title for a, b in SIDES for title in (f"{a * b:,}: µs", ": NumPy")]]
    print(table(f"{name}, float32, 1 thread", header, [*rows.values()], PACKAGES))
    assert all(len(row) == len(header) for row in rows.values())
