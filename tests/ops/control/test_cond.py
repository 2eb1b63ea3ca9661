"""Conditionals: only one branch runs, with its gradient and batching."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array


def root(x: ex.Expr) -> Any:
    return ex.cond(x >= 0, lambda x: ex.sqrt(x), lambda x: -ex.sqrt(-x), x)


@pytest.mark.parametrize(("x", "value", "slope"), [(9.0, 3.0, 1 / 6), (-4.0, -2.0, 1 / 4)])
def test_the_selected_branch_determines_value_and_gradient(x: float, value: float, slope: float) -> None:
    """The other branch would be NaN, and so would a gradient summed over both."""
    leaf = ex.tensor(x)
    y = root(leaf)
    assert ex.evaluate([y, ex.grad(y, leaf)]) == [value, pytest.approx(slope)]


def test_only_one_branch_runs() -> None:
    runs: list[float] = []

    class Noted(ex.Elementwise):
        """x, recording that it was computed."""

        name = "noted_by_cond"
        pure = False
        examples = (ex.Example(ex.real(2)),)

        def kernel(self, out: Array, x: Array) -> Array:
            runs.append(float(x))
            return np.copyto(out, x) or out

        def gradient(self, g: ex.Expr, y: ex.Expr, x: ex.Expr) -> tuple[ex.Expr]:
            return (g,)

    noted = Noted()
    x = ex.tensor(1.0)
    ex.evaluate(ex.cond(x > 2, lambda x: noted(x), lambda x: noted(x + 10), x))
    assert runs == [11.0]


def test_branches_read_outer_values_and_return_containers() -> None:
    w, x = ex.tensor([1.0, 2.0], name="w"), ex.tensor(3.0)
    y = ex.cond(x > 0, lambda x: {"a": x * w, "b": x}, lambda x: {"a": w, "b": -x}, x)
    assert [node.label for node in y["b"].operands[0].operands] == ["greater", "x", "w"]
    np.testing.assert_array_equal(ex.evaluate(y["a"]), [3.0, 6.0])
    loss = y["a"].sum() * y["b"]
    np.testing.assert_allclose(ex.evaluate(ex.grad(loss, w)), [9.0, 9.0])
    np.testing.assert_allclose(ex.evaluate(ex.grad(loss, x)), 18.0)


def test_second_derivatives_go_through_the_branch() -> None:
    x = ex.tensor(3.0)
    y = ex.cond(x > 0, lambda x: x * x * x, lambda x: x, x)
    first = ex.grad(y, x)
    assert ex.evaluate([first, ex.grad(first, x)]) == [27.0, 18.0]


def test_equal_conditionals_are_computed_once() -> None:
    x = ex.tensor(5.0)
    plan = ex.EvalPlan()
    plan.register(sum([root(x) for _ in range(3)]))
    plan.prepare()
    assert [node.operation.name for node in plan.planned.graph.live].count("cond") == 1


@pytest.mark.parametrize("value", [True, False])
def test_a_constant_condition_leaves_one_branch_with_a_decision(value: bool) -> None:
    x = ex.tensor([1.0, 2.0])
    plan = ex.EvalPlan()
    y = plan.register(ex.cond(value, lambda x: x * 2, lambda x: x * 3, x))
    plan.eval()
    np.testing.assert_array_equal(y.data(), [2.0, 4.0] if value else [3.0, 6.0])
    (decision,) = [d for d in plan.recording.decisions if d.code == "branch_known"]
    assert (decision.facts["branch"], decision.facts["condition"]) == ("then" if value else "otherwise", str(value))
    assert "cond" not in {node.operation.name for node in plan.planned.graph.live}
    exec(plan.reproducer(decision), {})


def test_batch_elements_run_their_own_branches() -> None:
    f = ex.function(lambda x: ex.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x))
    rows = np.random.default_rng(0).normal(size=(6, 3))
    plan = ex.EvalPlan()
    handles = [plan.register(f(ex.tensor(row))) for row in rows]
    plan.eval()
    assert "batched" in {decision.code for decision in plan.recording.decisions}
    for row, handle in zip(rows, handles, strict=True):
        np.testing.assert_array_equal(handle.data(), row * 2 if row.sum() > 0 else row - 1)


def test_batch_elements_with_one_condition_run_one_branch() -> None:
    on = ex.tensor(1.0) > 0
    f = ex.function(lambda x, on: ex.cond(on, lambda x: x * 2, lambda x: x - 1, x))
    rows = np.random.default_rng(0).normal(size=(6, 3))
    plan = ex.EvalPlan()
    handles = [plan.register(f(ex.tensor(row), on)) for row in rows]
    plan.eval()
    assert "batched" in {decision.code for decision in plan.recording.decisions}
    assert "cond" in {node.operation.name for node in plan.planned.graph.live}
    for row, handle in zip(rows, handles, strict=True):
        np.testing.assert_array_equal(handle.data(), row * 2)


def test_a_recording_contains_both_branches() -> None:
    x = ex.tensor(2.0, name="x")
    plan = ex.EvalPlan()
    plan.register(root(x))
    plan.eval()
    recording = plan.recording
    names = [body.name for body in recording.bodies]
    assert names == ["", "cond", "then", "otherwise"]
    labels = {names[body]: set() for body in range(len(names))}
    for node, body in enumerate(recording.nodes.body):
        labels[names[body]].add(recording.nodes.label[node])
    assert labels["cond"] == {"condition", "x", "then", "otherwise", "where"}
    assert "sqrt" in labels["then"]
    assert "negative" in labels["otherwise"]


def test_fingerprints_include_branches() -> None:
    def fingerprint(factor: float) -> str:
        plan = ex.EvalPlan()
        x = ex.tensor(2.0)
        plan.register(ex.cond(x > 0, lambda x: x * factor, lambda x: x, x))
        return plan.prepare().recording.fingerprint

    assert fingerprint(2.0) == fingerprint(2.0) != fingerprint(3.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ex.cond(x, lambda x: x, lambda x: x, x), "condition must be a scalar of dtype bool"),
        (lambda x: ex.cond(x > 0, 3, lambda x: x, x), "then must be a function"),
        (lambda x: ex.cond(x > 0, lambda x: x, lambda x: x.astype("float32"), x), "same shapes and dtypes"),
        (lambda x: ex.cond(x > 0, lambda x: x, lambda x: (x, x), x), "same number of values"),
        (lambda x: ex.cond(x > 0, lambda x: {"a": x}, lambda x: {"b": x}, x), "same containers and keys"),
        (lambda x: ex.cond(x > 0, lambda x, y: x, lambda x, y: x, x, "low"), "nested tuples, lists and dicts"),
        (lambda x: ex.cond(x > 0, lambda x: 3.0, lambda x: x, x), "must return an expression"),
    ],
)
def test_an_invalid_conditional_raises_an_error_when_it_is_written(call: Any, message: str) -> None:
    with pytest.raises(ex.ExplorerError, match=message):
        call(ex.tensor(1.0))


def test_the_error_of_a_failing_branch_contains_its_line() -> None:
    class FailsInside(ex.Elementwise):
        """Fail."""

        name = "fails_inside_cond"
        nondifferentiable = "it fails"
        examples = (ex.Example(ex.real(2)),)

        def kernel(self, out: Array, x: Array) -> Array:
            raise ValueError("no")

    fails = FailsInside()
    x = ex.tensor(1.0)
    y = ex.cond(x > 0, lambda x: fails(x), lambda x: x, x)
    with pytest.raises(ex.RunError, match=r"fails_inside_cond.*test_cond\.py line"):
        ex.evaluate(y)
