"""Views of planned memory are created once; views that must copy do so in each run."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.plan.planner import plan
from explorer.run.execution.executors.simple import run_simple
from explorer.run.execution.program import Program


def values(program: Program, x: Any, array: Any) -> Any:
    program.bind({x: array})
    run_simple(program)
    return program.take()[0]


def test_every_run_reads_its_own_values_through_views() -> None:
    """A reshape of a transpose is a copy, and views of it belong to the current run's copy."""
    x = Parameter(ex.TensorType((4, 6), np.float32), "x")()
    copied = ex.reshape(ex.transpose(ex.exp(x)), (4, 6))
    y = ex.reshape(copied, (2, 12))[:, 1:] * 2.0
    program = Program(plan([y]))
    for seed in range(3):
        array = np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32)
        expected = np.exp(array).T.reshape(2, 12)[:, 1:] * 2
        np.testing.assert_allclose(values(program, x, array), expected, rtol=1e-6)


def test_views_of_an_input_belong_to_the_input_of_each_run() -> None:
    """A program keeps no view of an input."""
    x = Parameter(ex.TensorType((3, 4), np.float32), "x")()
    program = Program(plan([ex.transpose(x) + 1.0]))
    first = np.zeros((3, 4), np.float32)
    assert np.all(values(program, x, first) == 1)
    first[:] = 5
    assert np.all(values(program, x, first) == 6)
    assert np.all(values(program, x, np.full((3, 4), 7, np.float32)) == 8)
