"""Constants: values that depend only on weights are computed once for all runs, separately from all others."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TensorType
from explorer.plan import Options, plan
from explorer.plan.graph.constancy import Prepared
from explorer.plan.planner import Plan
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.support.decisions import codes, facts

x = Parameter(TensorType((2, 3), "float64"), "x")()
w = ex.tensor(np.array([1.0, 2.0, 3.0]), name="w")
given = np.arange(6.0).reshape(2, 3)


def value(planned: Plan) -> list[np.ndarray]:
    program = Program(planned)
    program.bind({x: given})
    run_simple(program)
    return program.take()


@pytest.mark.spec("P-1", "P-15")
def test_values_that_depend_only_on_weights_are_marked_and_come_first() -> None:
    """They are scheduled first, and their decision has their count and bytes."""
    planned = plan([ex.tanh(x) * ex.exp(ex.sin(w) + 1) + ex.softmax(w)])
    assert codes(planned, "constants") == ["prepared_once"]
    assert facts(planned, "prepared_once") == {"count": 4, "kept": 2, "kept_bytes": 48}
    marks = [kernel.constant for kernel in planned.schedule.kernels]
    assert marks == sorted(marks, reverse=True)
    assert [[n.operation.name for n in k.nodes] for k in planned.schedule.kernels if k.constant] == [
        ["sin", "add", "exp"],
        ["softmax"],
    ]
    placements = zip(planned.schedule.kernels, planned.schedule.placements, strict=True)
    assert all(placement.buffer == -1 for kernel, placement in placements if kernel.constant)
    np.testing.assert_allclose(
        value(planned)[0],
        np.tanh(given) * np.exp(np.sin(w.array) + 1) + np.exp(w.array) / np.exp(w.array).sum(),
        rtol=1e-14,
    )


@pytest.mark.spec("P-1", "V-25")
def test_operations_that_run_once_cost_nothing_if_they_are_not_fused() -> None:
    weight = ex.tensor(np.array([[3.0], [4.0]]))
    planned = plan([ex.tanh(x) * (ex.exp(ex.sin(weight)[0]) + 1)])
    once = planned.graph.notes(Prepared)
    costs = {
        decision.cost_us()
        for decision in planned.graph.decisions
        if not decision.applied and {node.uid for node in decision.subjects} <= once
    }
    assert costs == {0.0}


@pytest.mark.spec("P-1", "P-6")
def test_a_constant_is_not_fused_into_a_kernel_that_runs_each_time() -> None:
    """Otherwise it would be computed in every run."""
    full = ex.tensor(given + 1)
    planned = plan([ex.tanh(x) * ex.exp(full)])
    assert [[n.operation.name for n in k.nodes] for k in planned.schedule.kernels] == [["exp"], ["tanh", "multiply"]]
    assert ("ElementwiseChain", "computed_once") in [(c.rule, c.code) for c in planned.graph.decisions if not c.applied]
    without = plan([ex.tanh(x) * ex.exp(full)], Options(without=("constants",)))
    assert [len(k.nodes) for k in without.schedule.kernels] == [3]
    assert np.array_equal(value(planned)[0], value(without)[0])


@pytest.mark.spec("P-1")
def test_requested_results_and_plans_without_parameters_are_not_marked() -> None:
    """Neither a root nor anything computed from it is marked; a plan without parameters prepares nothing."""
    root = ex.sin(w)
    planned = plan([root, x * ex.cos(root), x + ex.exp(w)])
    assert [k.result.operation.name for k in planned.schedule.kernels if k.constant] == ["exp"]
    alone = plan([ex.tanh(ex.sin(w))])
    assert "constants" not in [stage.name for stage in alone.graph.stages]
    assert not any(kernel.constant for kernel in alone.schedule.kernels)


@pytest.mark.spec("P-1", "P-8")
def test_constants_are_outside_the_buffers_and_kept_for_their_views() -> None:
    """No other result reuses a constant's memory."""
    turned = ex.transpose(ex.exp(ex.tensor(np.arange(6.0).reshape(3, 2))))
    planned = plan([ex.tanh(ex.sin(x) + turned)])
    assert facts(planned, "prepared_once")["kept_bytes"] == 48
    assert sum(kernel.constant for kernel in planned.schedule.kernels) == 2
    assert planned.schedule.peak == plan([ex.tanh(ex.sin(x) + x)]).schedule.peak


@pytest.mark.spec("P-7", "P-1")
def test_constants_are_picked_before_nodes_recorded_earlier() -> None:
    """The decision states this only if other kernels were ready, too."""
    before = ex.sin(x)
    constant = ex.softmax(w)
    planned = plan([ex.matmul(before, ex.transpose(before)).sum() + constant.sum() * x])
    kernels = planned.schedule.kernels
    assert [kernel.constant for kernel in kernels] == sorted([kernel.constant for kernel in kernels], reverse=True)
    first, pick = kernels[0], planned.schedule.picks[0]
    assert (first.result.operation.name, first.constant, pick.reason) == ("softmax", True, "constant")
    alone = plan([x * ex.softmax(w) * ex.softmax(w * 2.0 + 1.0)[::-1].sum()])
    turns = zip(alone.schedule.kernels, alone.schedule.picks, strict=True)
    first, pick = next((kernel, pick) for kernel, pick in turns if pick.ready_count > 1)
    assert (first.constant, pick.reason) == (True, "earliest")
