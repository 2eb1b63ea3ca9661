"""Overheads in µs: of a recorded node, a call, and an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.plan_cache import cache as plans
from tests.bench.contest import micros, table

pytestmark = pytest.mark.bench

COUNT, ROOTS = 500, 2_000
GIVEN = np.linspace(0, 1, 8, dtype=np.float32)


def recordings() -> dict[str, Callable[[], Any]]:
    """Return one step of a user's loop by its source code."""
    x, matrix = ex.tensor(GIVEN), ex.tensor(np.eye(8, dtype=np.float32))
    layers = [(ex.tensor(np.eye(8, dtype=np.float32)), ex.tensor(GIVEN)) for _ in range(4)]
    hundred = [ex.tensor(GIVEN) for _ in range(100)]

    @ex.function
    def network(a: Any) -> Any:
        for weight, bias in layers:
            a = ex.tanh(a @ weight + bias)
        return a

    @ex.function
    def total(a: Any) -> Any:
        for item in hundred:
            a = a + item
        return a

    return {
        "x + x": lambda: x + x,
        "x + 1": lambda: x + 1,
        "ex.sum(x)": lambda: ex.sum(x),
        "matrix.mean(axis=0)": lambda: matrix.mean(axis=0),
        "x[1:3]": lambda: x[1:3],
        "x @ matrix": lambda: x @ matrix,
        "call that captures a list of layers": lambda: network(x),
        "call that captures 100 tensors": lambda: total(x),
        "ex.evaluate(x + x), plan cached": lambda: ex.evaluate(x + x),
        "ex.evaluate(x + x), planned anew": lambda: (plans.clear(), ex.evaluate(x + x)),
    }


def repeated(step: Callable[[], Any]) -> Callable[[], None]:
    """Repeat the same step, and drop each result."""

    def run() -> None:
        for _ in range(COUNT):
            step()

    return run


def test_overheads() -> None:
    """Compare rows of two versions that ran next to each other."""
    rows = [[name, f"{micros(repeated(step), COUNT, rounds=5):.2f}"] for name, step in recordings().items()]
    matrix = ex.tensor(np.eye(8, dtype=np.float32))
    graphs = [[ex.tanh(ex.tensor(GIVEN + index) @ matrix) for index in range(ROOTS)] for _ in range(4)]
    ex.evaluate(graphs.pop())
    rows.append(["one of 2,000 roots, plan cached", f"{micros(lambda: ex.evaluate(graphs.pop()), ROOTS):.2f}"])
    print(table("overheads, µs each", ["step", "µs"], rows, ["numpy"]))
    assert not graphs
