"""User-defined passes that order and fuse: their decisions are applied, and invalid ones raise an error with their
name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.plan.schedule.schedule import Kernel

X = ex.tensor(np.linspace(-1, 1, 6).reshape(2, 3), name="x")


@dataclass(frozen=True)
class Given(ex.passes.Order):
    """Run kernels in a given order."""

    order: tuple[int, ...] = ()

    def sequence(self, kernels: Sequence[Kernel], producers: Sequence[Sequence[int]]) -> Sequence[int]:
        return self.order or [*range(len(kernels))]


@dataclass(frozen=True)
class Join(ex.Pass):
    """Fuse the operations with some names."""

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


def test_kernels_run_in_the_order_of_a_user_defined_pass() -> None:
    value = ex.tanh(X) @ ex.exp(X).T
    plan = plan_with(Given(order=(1, 2, 0, 3)), ex.passes.Order, value)
    assert [kernel.result.label for kernel in plan.planned.schedule.kernels] == ["exp", "transpose", "tanh", "matmul"]
    assert {pick.reason for pick in plan.planned.schedule.picks} <= {"own_order", "only"}
    assert np.array_equal(ex.evaluate(value, passes=plan.options.passes), ex.evaluate(value))


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_user_defined_order_is_a_preference_for_concurrent_kernels(lanes: int) -> None:
    value = ex.tanh(X) @ ex.exp(X).T
    plan = plan_with(Given(order=(1, 0, 2, 3)), ex.passes.Order, value, lanes=lanes)
    assert next(iter(plan.planned.schedule.kernels)).result.label == "exp"
    assert plan.planned.schedule.kernels[-1].result.label == "matmul"


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 1, 2), (0, 0, 1, 2), (0, 1, 2, 3, 3)])
def test_an_order_that_is_not_topological_raises_an_error(order: tuple[int, ...]) -> None:
    with pytest.raises(ex.DeclarationError, match=r"Given.sequence with [\s\S]*each kernel after its producers"):
        plan_with(Given(order=order), ex.passes.Order, ex.tanh(X) @ ex.exp(X).T)


def test_invalid_kernel_numbers_raise_an_error() -> None:
    with pytest.raises(ex.DeclarationError, match="must contain each number below 1 once"):
        plan_with(Given(order=(7,)), ex.passes.Order, ex.tanh(X))


def test_nodes_fused_by_a_user_defined_pass_are_one_kernel() -> None:
    value = ex.tanh(X + 1) * 2
    plan = plan_with(Join(("add", "tanh", "multiply")), ex.passes.Fuse, value)
    assert [len(kernel.nodes) for kernel in plan.recording.schedule.kernels] == [3]  # type: ignore[union-attr]
    assert np.array_equal(ex.evaluate(value, passes=plan.options.passes), ex.evaluate(value))


def test_a_kernel_with_an_inner_value_read_elsewhere_raises_an_error() -> None:
    middle = ex.tanh(X)
    with pytest.raises(
        ex.DeclarationError,
        match=r"Join \(test_own_passes.py:\d+\) makes a kernel of tanh and exp\n.*read outside it, and tanh is",
    ):
        plan_with(Join(("tanh", "exp")), ex.passes.Fuse, ex.exp(middle), ex.sqrt(middle))
    with pytest.raises(
        ex.DeclarationError,
        match=r"Join \(test_own_passes.py:\d+\) makes a kernel of tanh and exp\n.*read outside it, and tanh is",
    ):
        plan_with(Join(("tanh", "exp")), ex.passes.Fuse, middle, ex.exp(middle))
    with pytest.raises(ex.DeclarationError, match=r"a kernel of tanh[\s\S]*two operations or more"):
        plan_with(Join(("tanh",)), ex.passes.Fuse, ex.tanh(X))


W = ex.tensor(np.ones((3, 4)), name="w")
TWICE = ex.tanh(X) * 2


def doing(work: Callable[[Any, Any], object]) -> type[ex.Pass]:
    """Return a pass that applies a function to a graph."""

    @dataclass(frozen=True)
    class Doing(ex.Pass):
        """Apply the function."""

        name = "doing"
        counted = ex.Reason("counted", "{count:node} and `{node}`.")

        def run(self, graph: Any) -> None:
            work(self, graph)

    return Doing


def decided(own: Any, graph: Any, *names: str) -> tuple[int, list[ex.Expr]]:
    members = [node for node in graph.live if node.operation.name in names]
    return graph.decide(own, own.counted, {"count": len(members), "node": members[0]}, members), members


def substitution(new: Callable[[ex.Expr], Any]) -> Callable[[Any, Any], None]:
    """Return a pass that replaces tanh."""

    def run(own: Any, graph: Any) -> None:
        decision, (old,) = decided(own, graph, "tanh")
        graph.substitute(decision, old, new(old))

    return run


def fusion(*names: str, order: int = 1) -> Callable[[Any, Any], None]:
    def run(own: Any, graph: Any) -> None:
        decision, members = decided(own, graph, *names)
        graph.fuse(decision, members[::order])

    return run


def stale(own: Any, graph: Any) -> None:
    """Fuse a node that was replaced."""
    decision, (old,) = decided(own, graph, "tanh")
    graph.substitute(decision, old, ex.sin(X))
    graph.fuse(decision, [old, graph.live[-1]])


def taken_apart(own: Any, graph: Any) -> None:
    """Replace a node of a kernel."""
    decision, members = decided(own, graph, "tanh", "multiply")
    graph.fuse(decision, members)
    graph.substitute(decision, members[0], ex.sin(X))


REFUSED = [
    (substitution(lambda old: old.reshape(3, 2)), TWICE, "put reshape, 3×2 float64, in the place of tanh, 2×3 float64"),
    (substitution(lambda old: ex.tanh(X.astype("float32"))), TWICE, "put tanh, 2×3 float32, in the place of tanh"),
    (substitution(lambda old: old.sum()), TWICE, "put sum, scalar float64, in the place of tanh"),
    (substitution(lambda old: 0.0), TWICE, "put 0.0 in the place of tanh"),
    (substitution(lambda old: np.ones((2, 3))), TWICE, r"put array[\s\S]* in the place of tanh"),
    (substitution(lambda old: old), TWICE, r"put tanh in the place of tanh[\s\S]*must not be, or be replaced by"),
    (substitution(ex.exp), TWICE, r"put exp in the place of tanh[\s\S]*must not read the node that it replaces"),
    (substitution(lambda old: TWICE), TWICE, r"put multiply in the place of tanh[\s\S]*must not read the node"),
    (taken_apart, TWICE, r"put sin in the place of tanh[\s\S]*replaced before they are in a kernel"),
    (stale, TWICE, "members must be live nodes, and <tanh"),
    (fusion("tanh", "multiply", order=-1), TWICE, "operands must come first, and multiply reads tanh"),
    (fusion("exp", "transpose"), ex.exp(X).T, "members must have one shape, and exp is 2×3"),
    (fusion("exp", "add"), ex.exp(X[0]) + X, "members must have one shape, and exp is 3 "),
    (fusion("matmul", "sum"), (X @ W).sum(axis=0), "before at most one reduction, and matmul is none there"),
    (fusion("sum", "exp"), ex.exp(X.sum(axis=1)), "members must be elementwise operations.*and sum is none there"),
    (fusion("exp", "matmul"), ex.exp(X) @ ex.tensor(np.ones((3, 3))), "and matmul is none there"),
    (lambda own, graph: graph.fuse(decided(own, graph, "tanh")[0], []), TWICE, "two operations or more"),
    (fusion("tanh", "tanh"), TWICE, "two operations or more"),
    (lambda own, graph: graph.fuse(own, []), TWICE, "the decision .*Doing"),
    (lambda own, graph: graph.substitute(None, TWICE, X + 1), TWICE, "the decision None"),
    (lambda own, graph: graph.decide(own, "because", {}, []), TWICE, "decides with the reason 'because'"),
    (lambda own, graph: graph.decide(own, own.counted, {"nod": X, "count": 1}, []), TWICE, "missing: node"),
    (lambda own, graph: graph.decline(own, own.counted, {"node": X}, X), TWICE, "missing: count"),
    (
        lambda own, graph: graph.decide(own, own.counted, {"count": np.ones(2), "node": X}, []),
        TWICE,
        "fact count = array",
    ),
    (lambda own, graph: graph.decide(own, own.counted, {"count": 1, "node": [X, {1}]}, []), TWICE, "the fact node ="),
]


@pytest.mark.spec("H-12")
@pytest.mark.parametrize(("work", "value", "said"), REFUSED)
def test_invalid_actions_of_a_pass_raise_an_error_with_its_name(work: Any, value: ex.Expr, said: str) -> None:
    """Test a replacement of another type, a kernel that cannot run, and a reason without its facts."""
    own = doing(work)
    with pytest.raises(ex.DeclarationError, match=said) as caught:
        ex.evaluate(value, passes=[own() if type(step) is ex.passes.Fuse else step for step in ex.default_passes()])
    assert "the decision" in said or caught.value.given.startswith("Doing (test_own_passes.py:")
    report = ex.check(own, value)
    assert not report
    assert re.search(said, str(report))


def test_a_pass_that_fuses_before_the_built_in_one_raises_an_error() -> None:
    with pytest.raises(
        ex.DeclarationError, match=r"tanh is in one of Doing \(test_own_passes.py:\d+\)[\s\S]*in the place of"
    ):
        ex.evaluate(TWICE, passes=[doing(fusion("tanh", "multiply"))(), *ex.default_passes()])


@pytest.mark.parametrize(
    "own", [fusion("tanh", "multiply"), fusion("tanh", "multiply", "sum"), substitution(lambda old: ex.tanh(X))]
)
def test_check_accepts_a_pass_that_keeps_values(own: Any) -> None:
    value = TWICE.sum(axis=1)
    assert ex.check(doing(own), value)
    assert not ex.check(doing(lambda own, graph: None))


def test_check_finds_a_pass_that_changes_values() -> None:
    report = ex.check(doing(substitution(lambda old: ex.sin(X))), TWICE)
    assert re.search("values with the pass = without ✗ multiply.*with the pass .*, without", str(report))


@pytest.mark.parametrize("sentence", ["{node", "{a.b}", "{}", "a } b", "{count:}", "{node!r}", "{count:a|b|c}"])
def test_a_field_without_a_fact_raises_an_error_at_its_declaration(sentence: str) -> None:
    with pytest.raises(ex.DeclarationError, match="the reason 'odd' with the sentence"):
        ex.Reason("odd", sentence)
