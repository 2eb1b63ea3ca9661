"""Recording and planning, µs a node, beside jax.make_jaxpr and torch.fx recording the same program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.bench.contest import contest, table

pytestmark = pytest.mark.bench

SIZES = (1_000, 10_000, 100_000)


def program(tanh: Any, x: Any, count: int) -> Any:
    """A chain of additions, products and tanh; every third node reads the input too."""
    y = x
    for index in range(count // 3):
        y = tanh(y * x + x) if index % 2 else tanh(x + y) * y
    return y


def record(count: int) -> ex.Expr:
    """Explorer's recording: operations, types, scope and line of every node."""
    found: ex.Expr = program(ex.tanh, ex.tensor(np.ones(8, np.float32)), count)
    return found


def prepare(root: ex.Expr) -> None:
    """Explorer's planning: every pass, every decision."""
    plan = ex.EvalPlan()
    plan.register(root)
    plan.prepare()


def contestants(count: int) -> dict[str, Callable[[], Any]]:
    """Explorer's two steps, and what others do in place of the first."""
    import jax
    import jax.numpy as jnp
    import torch
    import torch.fx

    class Chain(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return program(torch.tanh, x, count)

    root = record(count)
    return {
        "record": lambda: record(count),
        "plan": lambda: prepare(root),
        "jax.make_jaxpr": lambda: jax.make_jaxpr(lambda x: program(jnp.tanh, x, count))(jnp.ones(8)),
        "torch.fx": lambda: torch.fx.symbolic_trace(Chain()),
    }


def test_recording_and_planning() -> None:
    """Reach for ≤ 3 µs a node recording and ≤ 20 µs planning with all passes, flat in the number of nodes."""
    rows = []
    for count in SIZES:
        found = contest(contestants(count), rounds=5 if count < 100_000 else 2)
        nodes = 3 * (count // 3)
        row = [f"{spent / nodes * 1000:.2f}" for spent in found.values()]
        rows.append([f"{nodes:,}", *row, f"1/{found['jax.make_jaxpr'] / found['record']:.0f}"])
    header = ["nodes", "record", "plan", "jax.make_jaxpr", "torch.fx", "record : jaxpr"]
    print(table("µs a node: recording and planning", header, rows, ["numpy", "jax", "torch"]))
    assert [row[0] for row in rows] == ["999", "9,999", "99,999"]
