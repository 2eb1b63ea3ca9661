"""Scans: carried states, stacked outputs, gradients, and batches of scans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array

RANDOM = np.random.default_rng(0)
W, X, H = RANDOM.normal(size=(3, 3)), RANDOM.normal(size=(5, 3)), RANDOM.normal(size=3)


def step_over(w: ex.Expr) -> Any:
    def step(h: ex.Expr, x: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        h = ex.tanh(h @ w + x)
        return h, h * 2

    return step


def unrolled(w: ex.Expr, x: ex.Expr, h: ex.Expr, order: range) -> tuple[ex.Expr, ex.Expr]:
    outputs: dict[int, ex.Expr] = {}
    for index in order:
        h, outputs[index] = step_over(w)(h, x[index])
    return h, ex.stack([outputs[index] for index in sorted(outputs)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("of", ["state", "outputs", "both"])
def test_values_and_gradients_equal_those_of_the_unrolled_steps(reverse: bool, of: str) -> None:
    w, x, h = ex.tensor(W), ex.tensor(X), ex.tensor(H)

    def loss(last: ex.Expr, outputs: ex.Expr) -> ex.Expr:
        parts = {"state": (last * last).sum(), "outputs": (outputs * outputs * ex.tensor(X)).sum()}
        return parts["state"] + parts["outputs"] if of == "both" else parts[of]

    scanned = ex.scan(step_over(w), h, x, reverse=reverse)
    expected = unrolled(w, x, h, range(5)[:: -1 if reverse else 1])
    for one, other in zip(scanned, expected, strict=True):
        np.testing.assert_allclose(ex.evaluate(one), ex.evaluate(other), rtol=1e-13)
    gradients = ex.grad(loss(*scanned), [w, x, h])
    wanted = ex.grad(loss(*expected), [w, x, h])
    for one, other in zip(ex.evaluate(gradients), ex.evaluate(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_second_derivatives() -> None:
    def second(square: Any) -> Array:
        x = ex.tensor(X)
        (first,) = ex.grad(square(x), [x])
        return np.asarray(ex.evaluate(ex.grad((first * first).sum(), x)))

    def scanned(x: ex.Expr) -> ex.Expr:
        return ex.scan(step_over(ex.tensor(W)), ex.tensor(H), x)[0].sum()

    def by_hand(x: ex.Expr) -> ex.Expr:
        return unrolled(ex.tensor(W), x, ex.tensor(H), range(5))[0].sum()

    np.testing.assert_allclose(second(scanned), second(by_hand), rtol=1e-11)


def test_gradients_through_conditionals_and_scans_inside_a_scan() -> None:
    """Compare with central differences; all capture the weights, and the inner scan has no sequences."""
    steps = np.array([[1.0, 1.0], [-1.0, 0.0], [2.0, 1.0]])
    weights = np.array([[0.5, 0.1], [0.2, 0.3]])

    def loss(w: ex.Expr) -> ex.Expr:
        def step(h: ex.Expr, x: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
            halved = lambda h: ex.scan(lambda k, _: (k * 0.5 @ w, None), h, length=3)[0]  # noqa: E731
            return ex.cond(x.sum() > 0, lambda h: ex.tanh(h @ w), halved, h), h

        h, passed = ex.scan(step, ex.tensor([1.0, 2.0]), ex.tensor(steps))
        return (passed * passed).sum() + h.sum()

    w = ex.tensor(weights)
    result = ex.evaluate(ex.grad(loss(w), w))
    for index in np.ndindex(2, 2):
        moved = np.zeros((2, 2))
        moved[index] = 1e-6
        high, low = (float(ex.evaluate(loss(ex.tensor(weights + sign * moved)))) for sign in (1, -1))
        assert result[index] == pytest.approx((high - low) / 2e-6, rel=1e-6)


def test_integer_states_have_no_gradient_and_do_not_stop_others() -> None:
    x = ex.tensor([2.0, 3.0])
    (count, product), _ = ex.scan(lambda s, x: ((s[0] + 1, s[1] * x), None), (ex.tensor(0), ex.tensor(1.0)), x)
    np.testing.assert_array_equal(ex.evaluate(ex.grad(product, x)), [3.0, 2.0])
    assert ex.evaluate(count) == 2


def test_containers_of_states_elements_and_outputs() -> None:
    def step(state: dict[str, ex.Expr], element: tuple[ex.Expr, ex.Expr]) -> tuple[dict[str, ex.Expr], Any]:
        a, b = element
        return {"sum": state["sum"] + a, "product": state["product"] * b}, [state["sum"], {"b": b}]

    ones = {"sum": ex.tensor(0.0), "product": ex.tensor(1.0)}
    values = ex.tensor(np.arange(1.0, 5.0))
    last, (sums, rest) = ex.scan(step, ones, (values, values))
    assert ex.evaluate([last["sum"], last["product"]]) == [10.0, 24.0]
    np.testing.assert_array_equal(ex.evaluate(sums), [0, 1, 3, 6])
    np.testing.assert_array_equal(ex.evaluate(rest["b"]), [1, 2, 3, 4])


def test_a_length_instead_of_sequences_and_no_output() -> None:
    last, nothing = ex.scan(lambda x, _: (x * 2, None), ex.tensor(1.0), length=10)
    assert nothing is None
    assert ex.evaluate(last) == 1024.0


def test_one_step_is_planned_for_any_length() -> None:
    plan = ex.EvalPlan()
    plan.register(ex.scan(step_over(ex.tensor(W)), ex.tensor(H), ex.tensor(RANDOM.normal(size=(800, 3))))[0])
    plan.eval()
    assert len(plan.planned.schedule.kernels) == 2  # the scan, and the item that reads the last state
    assert plan.recording.nodes.attributes[plan.recording.nodes.label.index("scan")]["length"] == "800"


def test_an_empty_scan_is_its_state_with_a_decision() -> None:
    h = ex.tensor(H)
    last, outputs = ex.scan(step_over(ex.tensor(W)), h, ex.tensor(np.zeros((0, 3))))
    plan = ex.EvalPlan()
    handles = plan.register(last), plan.register(outputs)
    plan.eval()
    np.testing.assert_array_equal(handles[0].data(), H)
    assert handles[1].data().shape == (0, 3)
    (decision,) = [d for d in plan.recording.decisions if d.code == "no_turns"]
    exec(plan.reproducer(decision), {})


@pytest.mark.parametrize("both", [True, False])
def test_batches_of_scans(both: bool) -> None:
    w = ex.tensor(W)
    f = ex.function(lambda h, x: ex.scan(step_over(w), h, x))
    h, rows = ex.tensor(H), RANDOM.normal(size=(4, 5, 3))
    plan = ex.EvalPlan()
    starts = [ex.tensor(H + i) if both else h for i in range(4)]
    pairs = [f(start, ex.tensor(row)) for start, row in zip(starts, rows, strict=True)]
    handles = [plan.register(value) for pair in pairs for value in pair]
    plan.eval()
    assert "batched" in {decision.code for decision in plan.recording.decisions}
    alone = [np.asarray(ex.evaluate(value)) for pair in pairs for value in pair]
    for handle, value in zip(handles, alone, strict=True):
        np.testing.assert_allclose(handle.data(), value, rtol=1e-13)


@pytest.mark.parametrize("executor", ["simple", "dag"])
def test_executors_run_two_scans_of_one_body(executor: str) -> None:
    w, x = ex.tensor(W), ex.tensor(X)
    plan = ex.EvalPlan(executor=executor)
    handles = [plan.register(ex.scan(step_over(w), ex.tensor(H + i), x)[1]) for i in range(3)]
    plan.eval()
    for i, handle in enumerate(handles):
        expected = ex.evaluate(unrolled(w, x, ex.tensor(H + i), range(5))[1])
        np.testing.assert_allclose(handle.data(), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ex.scan(lambda h, x: h + x, x[0], x), "must return a tuple of the next state and an output"),
        (lambda x: ex.scan(lambda h, x: (x, x), ex.tensor(0.0), x), "same shapes and dtypes"),
        (lambda x: ex.scan(lambda h, x: ((h, h), x), x[0], x), "same containers and keys"),
        (lambda x: ex.scan(lambda h, x: (h, None), x[0]), "or length must be set"),
        (lambda x: ex.scan(lambda h, x: (h, None), x[0], (x, x[:2])), "equal lengths along their first axis"),
        (lambda x: ex.scan(lambda h, x: (h, None), x[0], x, length=3), "equal lengths along their first axis"),
        (lambda x: ex.scan(lambda h, x: (h, None), x[0], length=-1), "0 or more"),
        (lambda x: ex.scan(3, x[0], x), "step must be a function"),
    ],
)
def test_an_invalid_scan_raises_an_error_when_it_is_written(call: Any, message: str) -> None:
    with pytest.raises(ex.ExplorerError, match=message):
        call(ex.tensor(X))


def test_an_empty_scan_keeps_its_state_when_memory_is_reused() -> None:
    a = np.random.default_rng(0).normal(size=(3, 3))
    x = ex.tensor(a)
    y, _ = ex.scan(lambda state, element: (state * element, state.sum()), x @ x, ex.tensor(np.zeros(0)))
    z = ex.sin(x @ x.T) @ x
    value, _ = ex.evaluate([y, (z + y).sum()], without="simplify")
    np.testing.assert_allclose(value, a @ a)
