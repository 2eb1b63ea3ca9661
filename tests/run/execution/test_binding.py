"""Bindings that copy small operands and results: everything is bound, and returned results never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.plan import Plan, plan
from explorer.run.execution.binding import copying_binding
from explorer.run.execution.executors import EXECUTORS, run_simple
from explorer.run.execution.program import Program

SMALL, LARGE = (3, 4), (80, 100)


def parameter(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return Parameter(ex.TensorType(shape, np.dtype(dtype)), "x")()


def drawn(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def copying(planned: Plan) -> Program:
    return Program(planned, copying_binding(planned))


def expressions(x: Any) -> list[Any]:
    """Return results of each kind: fused, reduced, a product, read by another result, a view, the input, a constant."""
    chain = ex.tanh(x * 2 + 1)
    weights = np.ones((x.shape[-1], 2), np.float32)
    return [chain, ex.relu(x @ weights), (chain * x).sum(-1), x.T, x, ex.tensor(weights) + 1, ex.softmax(chain).T]


@pytest.mark.parametrize("executor", ["simple", "dag", "async"])
@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_each_run_has_its_own_results(shape: tuple[int, ...], executor: str) -> None:
    """They belong to the inputs of the run, are read-only, and are never overwritten by a later run."""
    x = parameter(shape)
    program = copying(plan(expressions(x)))
    runs = []
    for seed in range(5):
        given = drawn(shape, seed)
        expected = ex.evaluate(expressions(ex.tensor(given)))
        program.bind({x: given})
        EXECUTORS[executor].run(program, None)
        runs.append((program.take(), expected))
        given[...] = np.nan
    for results, expected in runs:
        for value, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-6)
            assert not value.flags.writeable


def test_all_kernels_of_a_small_program_are_bound() -> None:
    """This includes kernels that read inputs, and kernels whose results are returned."""
    x = parameter(SMALL)
    program = copying(plan([ex.tanh(x * 2 + 1), ex.relu(x @ drawn((4, 5), 1) + 1)]))
    for seed in range(4):
        program.bind({x: drawn(SMALL, seed)})
        run_simple(program)
        program.take()
    assert program.bound is not None
    assert program.bound.kernels_bound == len(program.runners) == 2


def test_inputs_of_bound_runs_are_checked() -> None:
    """A missing value and one of another shape raise an error; other dtypes are converted."""
    x = parameter(SMALL)
    program = copying(plan([x + 1]))
    with pytest.raises(ex.StateError, match="must have a value"):
        program.bind({})
    with pytest.raises(ex.OperandError, match="with a value 2"):
        program.bind({x: np.ones(2, np.float32)})
    program.bind({x: np.ones(SMALL)})
    run_simple(program)
    (value,) = program.take()
    assert value.dtype == np.float32
    assert (value == 2).all()
