"""Programs: what they keep after a run."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.plan import Options, plan
from explorer.plan.passes import Inline
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.plan_cache import cache


class RefusesNegatives(ex.Elementwise):
    """x, unless it contains a negative number."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3, low=0.0)),)

    def kernel(self, out: Any, x: Any) -> Any:
        if (x < 0).any():
            raise ValueError("a negative number")
        np.copyto(out, x)
        return out


def test_an_unopened_call_that_failed_keeps_no_values() -> None:
    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return RefusesNegatives()(a) @ a

    program = Program(plan([f(ex.tensor(np.full((3, 3), -1.0)))], Options(inline=Inline(0))))
    with pytest.raises(ex.RunError, match="refuses_negatives of"):
        run_simple(program)
    (inner,) = program._closed.values()
    assert [inner.values[inner.slots[parameter.uid]] for parameter in inner.parameters] == [None]


def test_a_plan_that_ran_keeps_no_intermediate_result() -> None:
    """Only the plan cache keeps values, within limits."""
    values: list[weakref.ref[Any]] = []

    class NotesItsResult(ex.Elementwise):
        """x; records its result."""

        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(3)),)

        def kernel(self, out: Any, x: Any) -> Any:
            np.copyto(out, x)
            values.append(weakref.ref(out))
            return out

    evaluation = ex.EvalPlan()
    handle = evaluation.register(ex.cumsum(NotesItsResult()(ex.tensor(np.ones(9))))[-1])
    evaluation.eval()
    cache.clear()
    gc.collect()
    assert handle.data() == 9
    assert [reference() for reference in values] == [None]
    del registry.operations["notes_its_result"]


def test_views_of_persistent_memory_are_created_once() -> None:
    """A view of a view has the same address in every run, like the arena."""
    taken: list[str] = []

    class MirroredView(ex.Operation):
        """x reversed."""

        view = True
        nondifferentiable = unbatchable = "a test"
        examples = (ex.Example(ex.real(3)),)

        def infer(self, x: ex.TensorType) -> ex.TensorType:
            return x

        def flops(self, result: ex.TensorType, x: ex.TensorType) -> int:
            return 0

        def kernel(self, out: None, x: Any) -> Any:
            taken.append(self.name)
            return x[::-1]

    mirrored = MirroredView()
    program = Program(plan([ex.cumsum(ex.exp(mirrored(mirrored(ex.cumsum(ex.tensor(np.arange(3.0)))))))]))
    assert len(taken) == 2
    for _ in range(2):
        run_simple(program)
        result = program.values[program.slots[program.planned.schedule.kernels[-1].result.uid]]
        assert np.allclose(result, np.cumsum(np.exp([0.0, 1.0, 3.0])))
    assert len(taken) == 2
    del registry.operations["mirrored_view"]
