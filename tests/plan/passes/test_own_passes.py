"""Passes of users that order and fuse: what they decide is run, and what makes no schedule is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.plan.schedule.schedule import Kernel

X = ex.tensor(np.linspace(-1, 1, 6).reshape(2, 3), name="x")


@dataclass(frozen=True)
class Given(ex.passes.Order):
    """Run kernels in an order that is given."""

    order: tuple[int, ...] = ()

    def sequence(self, kernels: Sequence[Kernel], producers: Sequence[Sequence[int]]) -> Sequence[int]:
        return self.order or [*range(len(kernels))]


@dataclass(frozen=True)
class Join(ex.Pass):
    """Fuse the operations of some names."""

    names: tuple[str, ...]
    name = "join"
    joined = ex.Reason("joined", "{count:operation} run in one loop.")

    def run(self, graph: Any) -> None:
        members = [node for node in graph.live if node.operation.name in self.names]
        graph.fuse(graph.decide(self, self.joined, {"count": len(members)}, members), members)


def plan_with(own: ex.Pass, replaced: type[ex.Pass], *values: ex.Expr, **options: Any) -> ex.EvalPlan:
    passes = [own if type(step) is replaced else step for step in ex.default_passes()]
    plan = ex.EvalPlan(passes=passes, **options)
    for value in values:
        plan.register(value)
    return plan.prepare()


def test_kernels_run_in_the_order_of_a_users_pass() -> None:
    value = ex.tanh(X) @ ex.exp(X).T
    plan = plan_with(Given(order=(1, 2, 0, 3)), ex.passes.Order, value)
    assert [kernel.result.label for kernel in plan.planned.schedule.kernels] == ["exp", "transpose", "tanh", "matmul"]
    assert {pick.reason for pick in plan.planned.schedule.picks} <= {"own_order", "only"}
    assert np.array_equal(ex.evaluate(value, passes=plan.options.passes), ex.evaluate(value))


@pytest.mark.parametrize("lanes", [1, 3])
def test_an_own_order_is_a_preference_where_kernels_run_together(lanes: int) -> None:
    value = ex.tanh(X) @ ex.exp(X).T
    plan = plan_with(Given(order=(1, 0, 2, 3)), ex.passes.Order, value, lanes=lanes)
    assert next(iter(plan.planned.schedule.kernels)).result.label == "exp"
    assert plan.planned.schedule.kernels[-1].result.label == "matmul"


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 1, 2), (0, 0, 1, 2), (0, 1, 2, 3, 3)])
def test_an_order_that_is_not_topological_is_refused(order: tuple[int, ...]) -> None:
    with pytest.raises(ex.DeclarationError, match=r"Given.sequence with [\s\S]*each kernel after those that it reads"):
        plan_with(Given(order=order), ex.passes.Order, ex.tanh(X) @ ex.exp(X).T)


def test_numbers_that_are_no_kernels_are_refused() -> None:
    with pytest.raises(ex.DeclarationError, match="must hold each number below 1 once"):
        plan_with(Given(order=(7,)), ex.passes.Order, ex.tanh(X))


def test_nodes_that_a_users_pass_fuses_are_one_kernel() -> None:
    value = ex.tanh(X + 1) * 2
    plan = plan_with(Join(("add", "tanh", "multiply")), ex.passes.Fuse, value)
    assert [len(kernel.nodes) for kernel in plan.recording.schedule.kernels] == [3]  # type: ignore[union-attr]
    assert np.array_equal(ex.evaluate(value, passes=plan.options.passes), ex.evaluate(value))


def test_a_kernel_whose_middle_is_read_elsewhere_is_refused() -> None:
    middle = ex.tanh(X)
    with pytest.raises(ex.DeclarationError, match="outside of which tanh is read, too"):
        plan_with(Join(("tanh", "exp")), ex.passes.Fuse, ex.exp(middle), ex.sqrt(middle))
    with pytest.raises(ex.DeclarationError, match="outside of which tanh is read, too"):
        plan_with(Join(("tanh", "exp")), ex.passes.Fuse, middle, ex.exp(middle))
    with pytest.raises(ex.DeclarationError, match=r"a kernel of tanh[\s\S]*two operations or more"):
        plan_with(Join(("tanh",)), ex.passes.Fuse, ex.tanh(X))
