"""Recording and planning, µs a node, beside jax.make_jaxpr and torch.fx recording the same program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.fx
from tests.bench.contest import contest, table

import explorer as ex

pytestmark = pytest.mark.bench

SIZES = (1_000, 10_000, 100_000)


def program(tanh: Any, x: Any, count: int) -> Any:
    """A chain of additions, products and tanh; every third node reads the input too."""
    y = x
    for index in range(count // 3):
        y = tanh(y * x + x) if index % 2 else tanh(x + y) * y
    return y


class Chain(torch.nn.Module):
    """The program as a module that torch.fx can trace."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Any) -> Any:
        return program(torch.tanh, x, self.count)


def record(count: int) -> ex.Expr:
    """Explorer's recording: operations, types, scope and line of every node."""
    return program(ex.tanh, ex.tensor(np.ones(8, np.float32)), count)


def test_recording_and_planning() -> None:
    """Reach for ≤ 3 µs a node recording and ≤ 20 µs planning with all passes, flat in the number of nodes."""
    rows = []
    for count in SIZES:
        root = record(count)
        found = contest(
            {
                "record": lambda count=count: record(count),
                "plan": lambda root=root: _prepared(root),
                "jaxpr": lambda count=count: jax.make_jaxpr(lambda x: program(jnp.tanh, x, count))(jnp.ones(8)),
                "fx": lambda count=count: torch.fx.symbolic_trace(Chain(count)),
            },
            rounds=5 if count < 100_000 else 2,
        )
        nodes = 3 * (count // 3)
        rows.append([f"{nodes:,}", *[f"{spent / nodes * 1000:.2f}" for spent in found.values()]])
        rows[-1].append(f"1/{found['jaxpr'] / found['record']:.0f}")
    header = ["nodes", "record", "plan", "jax.make_jaxpr", "torch.fx", "record : jaxpr"]
    print(table("µs a node: recording and planning", header, rows, ["numpy", "jax", "torch"]))
    assert float(rows[0][1]) > 0


def _prepared(root: ex.Expr) -> None:
    plan = ex.EvalPlan()
    plan.register(root)
    plan.prepare()
