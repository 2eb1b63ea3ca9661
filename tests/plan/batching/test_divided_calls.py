"""Mapped calls divided among workers: equal values, one unopened call per part, and both decisions with estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.plan.batching.divided_calls import PartCall
from explorer.plan.passes import Inline
from explorer.plan.schedule.task_assignment import Network
from tests.support.programs import prepared

FREE = Inline(network=Network(3))
"""three workers with free messages"""
w = ex.tensor(np.linspace(-1.0, 1.0, 12).reshape(3, 4), name="w")


@ex.function
def both(x: ex.Expr, scale: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
    return ex.tanh(x @ w) * scale, x.sum()


def parts(plan: ex.EvalPlan) -> list[Any]:
    return [node.operation for node in plan.planned.graph.live if isinstance(node.operation, PartCall)]


def codes(plan: ex.EvalPlan) -> list[str]:
    recording = plan.recording
    return [choice.code for choice in recording.decisions if recording.stages[choice.stage].name == "inline"]


@pytest.mark.spec("C-14", "P-11")
@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
def test_divided_calls_give_the_values_of_the_whole_batch(count: int) -> None:
    """Test uneven parts, two outputs, a shared operand, and fewer members than workers."""
    xs, scales = np.random.default_rng(count).normal(size=(count, 5, 3)), np.arange(count) + 1.0
    expected = ex.evaluate(ex.map(both, xs, scales))
    results = ex.evaluate(ex.map(both, xs, scales), inline=FREE)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-12)


@pytest.mark.spec("C-14")
def test_each_part_is_one_unopened_call() -> None:
    plan = prepared(ex.map(both, np.ones((7, 5, 3)), np.ones(7))[0], inline=FREE)
    assert [part.label for part in parts(plan)] == ["both ×2", "both ×2", "both ×3"]
    assert len({id(part.body) for part in parts(plan)}) == 2
    assert codes(plan) == ["divided"]


@pytest.mark.spec("C-14")
def test_members_are_not_divided_if_messages_cost_more() -> None:
    dear = Inline(network=Network(3, latency=1e4))
    plan = prepared(ex.map(both, np.ones((7, 5, 3)), np.ones(7))[0], inline=dear)
    assert parts(plan) == []
    assert codes(plan) == ["messages_cost_more", "batched"]


@pytest.mark.spec("C-14")
def test_a_call_with_one_worker_or_one_member_is_not_divided() -> None:
    alone = prepared(ex.map(both, np.ones((7, 5, 3)), np.ones(7))[0], inline=Inline(network=Network(1)))
    single = prepared(ex.map(both, np.ones((1, 5, 3)), np.ones(1))[0], inline=FREE)
    assert codes(alone) == codes(single) == ["batched"]


@pytest.mark.spec("C-14")
def test_the_gradient_of_divided_members_equals_the_undivided_one() -> None:
    xs = np.random.default_rng(0).normal(size=(6, 5, 3))
    loss = ex.map(both, xs, np.ones(6))[0].sum()
    np.testing.assert_allclose(
        ex.evaluate(ex.grad(loss, w), inline=FREE), ex.evaluate(ex.grad(loss, w)), rtol=1e-12
    )  # fmt: skip
