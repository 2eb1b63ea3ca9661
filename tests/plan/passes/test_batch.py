"""Batching: loops over single samples run as one call over stacked rows if that is cheaper."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter, item
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.ops.linalg.matmul import Matmul
from explorer.plan import Options, plan
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.passes import Inline
from explorer.plan.planner import Plan
from tests.support.execution import run
from tests.support.interpreter import reference
from tests.support.unbatchable import Backwards

random = np.random.default_rng(11)


def decisions(planned: Plan, code: str, name: str = "") -> list[PlanDecision]:
    results = [decision for decision in planned.graph.decisions if decision.code == code]
    return [decision for decision in results if not name or decision.facts["name"] == name]


@ex.function
def layer(x: Any, w: Any, b: Any) -> Any:
    return ex.tanh(x @ w + b)


@pytest.mark.spec("P-4", "M-E4", headline=True)
def test_a_loop_over_samples_is_one_batch_with_a_single_gradient_contraction() -> None:
    """Compute similar calls as one call on stacked rows; the decision states the calls, the shapes before and after,
    and the costs.
    """
    count, inner, outer = 1000, 128, 64
    rows = random.normal(size=(count, inner))
    w, b = ex.tensor(random.normal(size=(inner, outer)) / 12, name="w"), ex.tensor(random.normal(size=outer), name="b")
    results = [layer(ex.tensor(row), w, b) for row in rows]
    loss = ex.add_n(*[ex.square(y).sum() for y in results])
    roots = [*results, loss, *ex.grad(loss, (w, b))]
    planned = plan(roots)
    names = [decision.facts["name"] for decision in decisions(planned, "batched")]
    assert {"layer", "square", "sum", "layer gradient"} <= set(names)
    assert {decision.facts["count"] for decision in decisions(planned, "batched")} == {count}
    assert all(c.facts["together_us"] < c.facts["separate_us"] for c in decisions(planned, "batched"))
    (batch,) = [decision for decision in decisions(planned, "batched") if decision.facts["name"] == "layer"]
    assert {id(node) for node in batch.subjects} == {id(y) for y in results}
    assert batch.facts["shapes_before"] == "(128, 128×64, 64) → 64"
    assert batch.facts["shapes_after"] == "(1000×128, 128×64, 64) → 1000×64"
    assert len(decisions(planned, "sum_of_products")) == 1
    assert max(node.type.nbytes for node in planned.graph.live) < count * inner * outer
    products = [node for node in planned.graph.live if isinstance(node.operation, Matmul)]
    assert sorted(node.shape for node in products) == [(inner, outer), (count, outer)]
    tracemalloc.start()
    result = run(planned)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * inner * outer * 8 / 3  # (n, k, m) is never materialised
    y = np.tanh(rows @ w.array + b.array)
    to_sum = 2 * y * (1 - y * y)
    np.testing.assert_allclose(np.stack(result[:count]), y, rtol=1e-12)
    np.testing.assert_allclose(result[count], (y * y).sum(), rtol=1e-12)
    np.testing.assert_allclose(result[count + 1], rows.T @ to_sum, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(result[count + 2], to_sum.sum(0), rtol=1e-9)


@pytest.mark.spec("P-4")
def test_calls_with_other_static_arguments_form_other_groups() -> None:
    @ex.function
    def scaled(x: Any, factor: float, kind: str) -> Any:
        return ex.tanh(x * factor) if kind == "tanh" else ex.sin(x) - factor

    kinds = [(2.0, "tanh"), (3.0, "tanh"), (2.0, "sin")]
    xs = [ex.tensor(random.normal(size=3)) for _ in range(300)]
    roots = [scaled(x, *kinds[index % 3]) for index, x in enumerate(xs)]
    planned = plan(roots)
    groups = decisions(planned, "batched") + decisions(planned, "stacking_costs_more")
    assert [decision.facts["count"] for decision in groups] == [100, 100, 100]
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-14)


@ex.function
def cell(h: Any, x: Any, w: Any) -> Any:
    z = ex.sigmoid(x @ w + h)
    return z * h + (1 - z) * ex.tanh(x), z


@pytest.mark.spec("P-4", "M-E4")
@pytest.mark.parametrize("limit", [0, 500_000])
def test_chains_of_calls_are_grouped_by_level(limit: int) -> None:
    w = ex.tensor(random.normal(size=(6, 6)), name="w")
    start = ex.tensor(np.zeros(6))
    sequences = [[ex.tensor(random.normal(size=6)) for _ in range(length)] for length in (4, 2, 3, 4) * 25]
    roots = []
    for sequence in sequences:
        h, z = start, start
        for x in sequence:
            h, z = cell(h, x, w)
        roots.append(h + z)
    loss = ex.add_n(*[root.sum() for root in roots])
    roots += [loss, ex.grad(loss, w)]
    planned = plan(roots, Options(inline=Inline(limit)))
    assert [c.facts["count"] for c in decisions(plan(roots[:-2]), "batched", "cell")] == [100, 100, 75, 50]
    members: dict[int, int] = {}
    for number, decision in enumerate(decisions(planned, "batched")):
        members.update({node.uid: number for node in decision.subjects})
    for decision in decisions(planned, "batched"):
        for node in decision.subjects:
            above = [operand.operands[0] for operand in node.operands if operand.operands]
            assert all(members.get(other.uid) != members[node.uid] for other in above)
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.spec("P-4")
def test_nested_calls_with_several_outputs_are_batched_as_a_whole() -> None:
    @ex.function
    def twice(h: Any, x: Any, w: Any) -> Any:
        first, gate = cell(h, x, w)
        second, _ = cell(first, x * gate, w)
        return {"h": second, "parts": (first, gate)}

    w = ex.tensor(random.normal(size=(5, 5)))
    results = [twice(ex.tensor(random.normal(size=5)), ex.tensor(random.normal(size=5)), w) for _ in range(200)]
    roots = [part for one in results for part in (one["h"], *one["parts"])]
    gradient = ex.grad(ex.add_n(*[(one["h"] * one["parts"][0]).sum() for one in results]), w)
    planned = plan([*roots, gradient])
    assert decisions(planned, "batched")
    for value, expected in zip(run(planned), reference([*roots, gradient]), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)


class SineAndCosine(ex.Operation):
    """The sine and the cosine of x."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3)),)

    def infer(self, x: ex.TensorType) -> TupleType:
        return TupleType((x, x))

    def kernel(self, out: Any, x: Any) -> Any:
        return np.sin(x, out=out[0]), np.cos(x, out=out[1])

    def batch(self, size: int, batched: tuple[bool, ...], x: Any) -> ex.Expr:
        return self(x)

    def flops(self, result: Any, *types: Any) -> int:
        return int(20 * result.parts[0].size)


@pytest.mark.spec("P-4")
def test_operations_with_several_outputs_are_batched() -> None:
    values = [SineAndCosine()(ex.tensor(random.normal(size=3))) for _ in range(30)]
    roots = [item(index)(value) for value in values for index in (1, 0)]
    planned = plan(roots)
    (batched,) = decisions(planned, "batched")
    assert len(batched.subjects) == len(values)
    assert sum([kernel.cost.flops for kernel in planned.schedule.kernels]) == 20 * 3 * len(values)
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.spec("P-4", "P-15")
def test_a_body_that_cannot_be_batched_is_declined_with_the_reason_of_its_operation() -> None:
    @ex.function
    def turned(x: Any) -> Any:
        return ex.tanh(Backwards()(x)) * 2.0

    roots = [turned(ex.tensor(random.normal(size=3))) for _ in range(50)]
    planned = plan(roots)
    (declined,) = decisions(planned, "not_batchable")
    assert (declined.facts["count"], len(declined.subjects)) == (50, 50)
    assert "backwards" in declined.facts["inner"]
    assert declined.reason.facts <= declined.facts.keys()
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.spec("P-4", "P-15")
def test_stacking_a_large_product_twice_is_declined_with_both_prices() -> None:
    product = ex.function(lambda a, b: a @ b)
    size = 300
    arrays = [ex.tensor(random.normal(size=(size, size)).astype("float32")) for _ in range(4)]
    roots = [product(arrays[0], arrays[1]), product(arrays[2], arrays[3])]
    planned = plan(roots)
    (declined,) = decisions(planned, "stacking_costs_more")
    assert declined.facts["together_us"] >= declined.facts["separate_us"] > 0
    assert not decisions(planned, "batched")


@pytest.mark.spec("P-4")
def test_equal_calls_are_merged_instead_of_batched() -> None:
    x = ex.tensor(random.normal(size=(4,)))
    w, b = ex.tensor(random.normal(size=(4, 4))), ex.tensor(np.zeros(4))
    planned = plan([ex.add_n(*[layer(x, w, b) for _ in range(100)])])
    assert not decisions(planned, "batched")
    assert decisions(planned, "merged")
    alone = plan([ex.add_n(*[layer(x, w, b) for _ in range(100)])], Options(without=("dedup",)))
    assert not decisions(alone, "batched")
    np.testing.assert_allclose(run(alone)[0], 100 * np.tanh(x.array @ w.array), rtol=1e-12)


@pytest.mark.spec("M-E4", "P-4", headline=True)
def test_a_loop_of_plain_operations_equals_a_batch_written_by_hand() -> None:
    """Run a loop over single samples as the batch that a user would write by hand, including gradients."""
    count, sizes = 200, (32, 48, 48, 10)
    weights = [ex.tensor(random.normal(size=pair) / 7) for pair in pairwise(sizes)]
    rows = random.normal(size=(count, sizes[0]))
    results = []
    for row in rows:
        y: Any = ex.tensor(row)
        for w in weights:
            y = np.tanh(y @ w + 1.0)
        results.append(y)
    loss = ex.add_n(*[(y * y).sum() for y in results])
    roots = [*results, loss, *ex.grad(loss, weights)]
    planned = plan(roots)
    products = [node for node in planned.graph.live if isinstance(node.operation, Matmul)]
    assert len(products) == 3 + 3 + 2  # forward, gradients of weights, gradients of inputs but the first
    assert max(node.type.nbytes for node in planned.graph.live) <= count * max(sizes) * 8
    result, expected = run(planned), reference(roots)
    for value, wanted in zip(result, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.spec("P-4", "P-15")
def test_operations_that_are_not_batched_have_a_decision_with_both_prices() -> None:
    """Large operands would be copied: one declined decision covers all similar operations."""
    large = [ex.tensor(random.normal(size=(300, 300))) for _ in range(6)]
    planned = plan([*[np.exp(x) for x in large], *[np.exp(x @ x) for x in large]])
    (products,) = decisions(planned, "stacking_costs_more", "matmul")
    (exponentials,) = decisions(planned, "stacking_costs_more", "exp")
    assert (len(products.subjects), len(exponentials.subjects)) == (6, 12)
    for decision in (products, exponentials):
        assert decision.facts["together_us"] >= decision.facts["separate_us"]
    assert not decisions(planned, "batched")


def test_dependent_calls_are_never_in_one_group() -> None:
    """Operations between calls, at other depths on other paths, create no cycle of groups."""

    @ex.function
    def f(x: Any) -> Any:
        return np.sin(x) * 2.0

    xs = [ex.tensor(random.normal(size=4)) for _ in range(40)]
    roots = []
    for index, x in enumerate(xs):
        y = np.exp(f(x)) if index % 2 else f(np.exp(f(x)))
        roots.append(f(np.exp(y) + 1.0) - np.exp(x))
    for result, expected in zip(run(plan(roots)), reference(roots), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.spec("P-4")
def test_batches_of_one_body_with_different_varying_operands_are_separate() -> None:
    """The first operand differs between members, the second does, or both do: three batches."""
    random = np.random.default_rng(0)
    body = ex.function(lambda a, b: ex.tanh(a @ b) * 2.0)
    squares = [ex.tensor(random.normal(size=(16, 16))) for _ in range(9)]
    for left, right in ((squares[1:], squares[:1] * 8), (squares[:1] * 8, squares[1:]), (squares[1:], squares[:-1])):
        calls = [body(a, b) for a, b in zip(left, right, strict=True)]
        planned = plan(calls)
        assert decisions(planned, "batched")
        for value, a, b in zip(run(planned), left, right, strict=True):
            np.testing.assert_allclose(value, np.tanh(a.array @ b.array) * 2, rtol=1e-12)


@pytest.mark.spec("P-4", "V-24")
def test_operations_on_weights_are_not_batched_because_they_run_once() -> None:
    x = Parameter(TensorType((1, 16), "float64"), "x")()
    weights = [ex.tensor(random.normal(size=16), name=f"w{index}") for index in range(16)]
    for weight in weights:
        x = ex.tanh(x * (weight / ex.sqrt(weight * weight + 1)))
    planned = plan([x])
    assert decisions(planned, "batched") == []
    assert sum(kernel.constant for kernel in planned.schedule.kernels) == len(weights)
