"""Deduplication: equal expressions are computed once, and values that only look equal are not merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import tensor_of
from explorer.plan import Options, plan
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.support.decisions import codes
from tests.support.effects import Counting
from tests.support.execution import run

x = ex.tensor(np.arange(12.0).reshape(3, 4), name="x")


@pytest.mark.spec("P-2", "M-E2", headline=True)
def test_equal_expressions_are_computed_once_and_the_saving_is_reported() -> None:
    """Merge equal expressions into one computation; the decision states the saved flops and bytes."""
    products = [ex.tanh(x) * 2.0 for _ in range(1000)]
    planned = plan([ex.add_n(*products)])
    assert len([c for c in planned.graph.decisions if c.code == "merged"]) == 2
    saved = [c.facts for c in planned.graph.decisions if c.code == "merged"]
    assert [f["count"] for f in saved] == [1000, 1000]
    assert saved[0]["saved_flops"] == 999 * 12 * 10
    assert saved[0]["saved_bytes"] == 999 * 12 * 8
    assert sum(node.operation.name == "tanh" for node in planned.graph.live) == 1
    again = tensor_of(x.storage)
    assert again is not x
    shared = plan([ex.tanh(x) @ ex.transpose(ex.tanh(again))])
    assert sum(node.operation.name == "tanh" for node in shared.graph.live) == 1, "two tensors of one array"
    copies = plan([ex.add_n(*[products[0]] * 1000)])
    assert not [c for c in copies.graph.decisions if c.code == "merged"]


@pytest.mark.spec("P-2")
def test_values_that_only_look_equal_are_not_merged() -> None:
    zeros = ex.TrivialTensor(0.0, (4,), dtype="float64"), ex.TrivialTensor(-0.0, (4,), dtype="float64")
    result = plan([1 / zeros[0], 1 / zeros[1]], Options(without=("simplify",)))
    assert [value.tolist() for value in run(result)] == [[np.inf] * 4, [-np.inf] * 4]
    other = ex.tensor(np.array(x.array))
    assert codes(plan([ex.tanh(x) + ex.tanh(other)]), "dedup") == []
    single = ex.tensor(np.float32(x.array))
    assert codes(plan([ex.cast(ex.tanh(single), "float64") + ex.tanh(x)]), "dedup") == []


@pytest.mark.spec("P-2")
@pytest.mark.parametrize(("extreme", "numpys"), [(ex.maximum, np.maximum), (ex.minimum, np.minimum)])
def test_extremes_with_swapped_operands_are_computed_separately(extreme: Any, numpys: Any) -> None:
    """For 0.0 and −0.0 they return the first, so their bits differ; exactly commutative operations are merged."""
    a, b = ex.tensor([0.0, -0.0, 1.0]), ex.tensor([-0.0, 0.0, 2.0])
    planned = plan([extreme(a, b), extreme(b, a)])
    assert "order_of_zeros" in codes(planned, "dedup", applied=False)
    first, second = run(planned)
    assert first.tobytes() == numpys(a.array, b.array).tobytes()
    assert second.tobytes() == numpys(b.array, a.array).tobytes()
    assert "commuted" in codes(plan([a + b, b + a]), "dedup")


@pytest.mark.spec("P-2")
def test_parameters_with_one_name_and_type_are_different_values() -> None:
    first, second = (Parameter(ex.tensor(1.0).type, "x")() for _ in range(2))
    assert first.operation is second.operation
    plan = ex.EvalPlan()
    handle = plan.register(first - second * 3.0)
    plan.eval({first: np.array(10.0), second: np.array(2.0)})
    assert handle.data() == 4.0


@pytest.mark.spec("P-2", "P-4", "P-15")
@pytest.mark.parametrize("called", [False, True])
def test_each_recorded_side_effect_happens_in_each_run(called: bool) -> None:
    """Such operations are neither merged, nor batched, nor computed once for all runs, even on constants."""
    count = 12
    body = ex.function(lambda a: Counting()(a) * 2.0) if called else lambda a: Counting()(a) * 2.0
    given = Parameter(ex.tensor(np.zeros(3)).type, "x")()
    same = ex.tensor(np.ones(3))
    roots = [body(same if number % 2 else ex.tensor(np.full(3, number))) + given for number in range(count)]
    value = ex.EvalPlan()
    Counting.runs = 0
    for again in (1, 2):
        handles = [value.register(root) for root in roots]
        value.eval({given: np.full(3, 5.0)})
        assert Counting.runs == again * count
        expected = [7.0 if number % 2 else 2.0 * number + 5 for number in range(count)]
        assert [handle.data()[0] for handle in handles] == expected
    program = Program(plan(roots))
    Counting.runs = 0
    for again in (1, 2):
        program.bind({given: np.zeros(3)})
        run_simple(program)
        program.take()
        assert Counting.runs == again * count
