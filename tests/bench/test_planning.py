"""Recording and planning in µs per node, against jax, torch.fx, dask and tinygrad with the same program."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.bench.contest import contest, table
from tests.bench.planned_program import prepare, program, record

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

SIZES = (1_000, 10_000, 100_000)
Run: TypeAlias = Callable[[], Any]


def of_explorer(count: int) -> dict[str, Run]:
    """Return explorer's two steps."""
    root = record(count)
    return {"record": lambda: record(count), "plan": lambda: prepare(root)}


def of_jax(count: int) -> dict[str, Run]:
    import jax
    import jax.numpy as jnp

    return {"jax.make_jaxpr": lambda: jax.make_jaxpr(lambda x: program(jnp.tanh, x, count))(jnp.ones(8))}


def of_torch(count: int) -> dict[str, Run]:
    import torch
    import torch.fx

    class Chain(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return program(torch.tanh, x, count)

    return {"torch.fx": lambda: torch.fx.symbolic_trace(Chain())}


def of_dask(count: int) -> dict[str, Run]:
    """Return dask's recording without types, and ``dask.optimize``; its recording grows with the square of the
    nodes."""
    if count > 1_000:
        return {}
    import dask

    def delayed() -> Any:
        return program(dask.delayed(np.tanh), dask.delayed(np.ones(8, np.float32)), count)

    graph = delayed()
    return {"dask.delayed": delayed, "dask.optimize": lambda: dask.optimize(graph)}


def of_tinygrad(count: int) -> dict[str, Run]:
    """Return tinygrad's recording, and recording with scheduling (cached), for a device that computes nothing."""
    if count > 1_000:
        return {}
    from tinygrad import Tensor

    given = np.ones(8, np.float32)

    def lazy() -> Any:
        return program(Tensor.tanh, Tensor(given), count)

    return {"tinygrad": lazy, "tinygrad, with schedule": lambda: lazy().schedule_linear()}


def test_recording_and_planning() -> None:
    """Target: recording in 1/20 of jax.make_jaxpr, and planning in ≤ 5 µs with all passes, independent of the size."""
    rows: list[list[str]] = []
    header: list[str] = []
    for count in SIZES:
        runs: dict[str, Run] = {}
        for make in (of_explorer, of_jax, of_torch, of_dask, of_tinygrad):
            runs |= make(count)
        result = contest(runs, rounds=5 if count < 100_000 else 2, clock=process_time)
        nodes = 3 * (count // 3)
        header = header or ["nodes", *result, "record : jaxpr"]
        row = [f"{result[name] / nodes * 1000:.2f}" if name in result else "–" for name in header[1:-1]]
        rows.append([f"{nodes:,}", *row, f"1/{result['jax.make_jaxpr'] / result['record']:.1f}"])
    packages = ["numpy", "jax", "torch", "dask", "tinygrad"]
    print(table("µs a node: recording and planning, 1 thread", header, rows, packages))
    assert [row[0] for row in rows] == ["999", "9,999", "99,999"]
