"""Chains of ten elementwise operations over 1e4, 1e6 and 1e7 float32."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.plan.options import Kernels
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.bench.contest import contest, table
from tests.bench.programs import chain, one_thread

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

SIZES = (10_000, 1_000_000, 10_000_000)
TEXT = "abs(((x * 1.5 + y) * x - y) * 0.5 * (x + 2.0) - y) * 0.25"
PACKAGES = ["numpy", "numexpr", "torch", "jax"]
Array = np.ndarray[Any, np.dtype[np.float32]]


def by_explorer(x: Array, y: Array) -> dict[str, Callable[[], Any]]:
    """Return the complete evaluation with a cached plan, and the prepared program alone, by NumPy and by C code."""
    x_, y_ = ex.tensor(x), ex.tensor(y)

    def prepared(kernels: Kernels) -> Callable[[], Any]:
        plan = ex.EvalPlan(kernels=kernels)
        plan.register(chain(x_, y_))
        program = Program(plan.prepare().planned)

        def execute() -> Any:
            run_simple(program)
            return program.take()[0]

        return execute

    return {
        "explorer": lambda: ex.evaluate(chain(x_, y_)),
        "explorer, execution": prepared("numpy"),
        "explorer, native": lambda: ex.evaluate(chain(x_, y_), kernels="native"),
        "explorer, native, execution": prepared("native"),
    }


def by_numpy(x: Array, y: Array) -> dict[str, Callable[[], Any]]:
    """Return the formula as written, and with two alternating output arrays."""
    out, other = np.empty_like(x), np.empty_like(x)

    def outs() -> Any:
        np.multiply(x, np.float32(1.5), out=out)
        np.add(out, y, out=out)
        np.multiply(out, x, out=out)
        np.subtract(out, y, out=out)
        np.multiply(out, np.float32(0.5), out=out)
        np.add(x, np.float32(2.0), out=other)
        np.multiply(out, other, out=out)
        np.subtract(out, y, out=out)
        np.abs(out, out=out)
        return np.multiply(out, np.float32(0.25), out=out)

    return {"NumPy": lambda: chain(x, y), "NumPy, out=": outs}


def by_numexpr(x: Array, y: Array) -> dict[str, Callable[[], Any]]:
    import numexpr

    numexpr.set_num_threads(1)
    text = TEXT
    for number in ("1.5", "0.5", "2.0", "0.25"):  # Python floats would convert everything to double
        text = text.replace(number, f"c{number.replace('.', '_')}")
    names = {f"c{number.replace('.', '_')}": np.float32(number) for number in ("1.5", "0.5", "2.0", "0.25")}
    return {"numexpr": lambda: numexpr.evaluate(text, {"x": x, "y": y, **names})}


def by_torch(x: Array, y: Array) -> dict[str, Callable[[], Any]]:
    import torch

    x_, y_ = torch.from_numpy(x), torch.from_numpy(y)

    def run() -> Any:
        with torch.inference_mode():
            return chain(x_, y_).numpy()

    return {"torch": run}


def by_jax(x: Array, y: Array) -> dict[str, Callable[[], Any]]:
    import jax
    import jax.numpy as jnp

    x_, y_, compiled = jnp.asarray(x), jnp.asarray(y), jax.jit(chain)
    return {"jax.jit": lambda: np.asarray(compiled(x_, y_))}


def test_chains() -> None:
    """Target: ≤ 0.5 × NumPy as written, at 1e7."""
    rows: dict[str, list[str]] = {}
    with one_thread():
        for size in SIZES:
            rng = np.random.default_rng(size)
            x, y = (rng.random(size, np.float32) for _ in range(2))
            runs: dict[str, Callable[[], Any]] = {}
            for make in (by_explorer, by_numpy, by_numexpr, by_torch, by_jax):
                runs |= make(x, y)
            expected = runs["NumPy"]()
            for name, run in runs.items():
                np.testing.assert_allclose(run(), expected, rtol=1e-5, atol=1e-5, err_msg=name)
            times = contest(runs, rounds=5, burst=20 if size < 1_000_000 else 3, clock=process_time)
            for name, spent in times.items():
                rows.setdefault(name, [name]).extend([f"{spent * 1000:,.0f}", f"{spent / times['NumPy']:.2f}"])
    header = ["", *[title for size in SIZES for title in (f"{size:,}: µs", ": NumPy")]]
    print(table("ten elementwise operations, float32, 1 thread", header, [*rows.values()], PACKAGES))
    assert all(len(row) == len(header) for row in rows.values())


def test_gelu_and_exponential() -> None:
    """tanh-GELU · exp(−x²) on 1e6 float32; target of native code: ≤ 0.7 × torch."""
    import jax
    import jax.numpy as jnp
    import torch

    x = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)

    def formula(x: Any, exp: Any, tanh: Any) -> Any:
        return 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x * x * x))) * exp(-x * x)

    x_, of_torch, of_jax = ex.tensor(x), torch.from_numpy(x), jnp.asarray(x)
    jitted = jax.jit(lambda x: formula(x, jnp.exp, jnp.tanh))
    runs: dict[str, Callable[[], Any]] = {
        "explorer": lambda: ex.evaluate(formula(x_, ex.exp, ex.tanh)),
        "explorer, native": lambda: ex.evaluate(formula(x_, ex.exp, ex.tanh), kernels="native"),
        "NumPy": lambda: formula(x, np.exp, np.tanh),
        "torch": lambda: formula(of_torch, torch.exp, torch.tanh).numpy(),
        "jax.jit": lambda: np.asarray(jitted(of_jax)),
    }
    with one_thread():
        for name, run in runs.items():
            np.testing.assert_allclose(run(), runs["NumPy"](), rtol=1e-5, atol=1e-6, err_msg=name)
        times = contest(runs, rounds=7, burst=3, clock=process_time)
    rows = [[name, f"{spent * 1000:,.0f}", f"{spent / times['NumPy']:.2f}"] for name, spent in times.items()]
    print(table("tanh-GELU · exp on 1,000,000 float32, 1 thread", ["", "µs", ": NumPy"], rows, PACKAGES))
