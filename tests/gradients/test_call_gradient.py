"""Gradients of calls: an augmented and a gradient function, created once, with nesting, captures and any outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.expr import record
from explorer.core.ir.function import Call, item
from explorer.core.ir.policy_operations import Adjusted
from explorer.core.ir.traversal import reachable

A = np.array([0.5, -1.0, 2.0])
B = np.array([1.5, 0.25, -0.75])


def check_equal_gradients(build: Any, *arrays: Any) -> None:
    """Check that gradients through calls equal those of the same operations without calls."""
    results = []
    for wrap in (ex.function, lambda body: body):
        operands = [ex.tensor(array) for array in arrays]
        results.append(ex.evaluate(ex.grad(build(wrap, *operands), operands)))
    for through, written_out in zip(*results, strict=True):
        np.testing.assert_allclose(through, written_out, rtol=1e-13)


def test_through_one_call() -> None:
    def build(wrap: Any, a: Any, b: Any) -> Any:
        return wrap(lambda x, y: (np.tanh(x * y) + x).sum())(a, b)

    check_equal_gradients(build, A, B)


def test_through_nested_calls() -> None:
    def build(wrap: Any, a: Any, b: Any) -> Any:
        inner = wrap(lambda x, y: np.tanh(x) * y)
        outer = wrap(lambda x, y: inner(x, y) + inner(y, x * 2) * x)
        return (outer(a, b) * outer(b, a)).sum()

    check_equal_gradients(build, A, B)


def test_through_captured_values() -> None:
    def build(wrap: Any, a: Any, b: Any) -> Any:
        derived = b * b

        def body(x: Any) -> Any:
            return np.exp(x * b) + derived * 3.0

        f = wrap(body)
        return (f(a) * f(a + 1)).sum()

    check_equal_gradients(build, A, B)


def test_gradients_of_some_outputs() -> None:
    """If the loss uses one of several outputs, the others have no gradient."""

    def build(wrap: Any, a: Any, b: Any) -> Any:
        f = wrap(lambda x, y: (x * y, np.sin(x), y + 1))
        first, _, third = f(a, b)
        return (first * third).sum()

    check_equal_gradients(build, A, B)


def test_every_output_repeated_outputs_and_operands_as_outputs() -> None:
    def build(wrap: Any, a: Any, b: Any) -> Any:
        def body(x: Any, y: Any) -> Any:
            z = np.tanh(x)
            return z, z, x, {"more": [z * y, y]}

        first, again, same_x, rest = wrap(body)(a, b)
        return (first + again * same_x + rest["more"][0] * rest["more"][1]).sum()

    check_equal_gradients(build, A, B)


def test_second_gradients_through_calls() -> None:
    def build(wrap: Any, a: Any, b: Any) -> Any:
        f = wrap(lambda x, y: np.exp(x * y).sum())
        ga, gb = ex.grad(f(a, b), [a, b])
        return (ga * gb).sum() + ga.sum()

    check_equal_gradients(build, A, B)


def test_second_gradients_through_a_nested_call_with_only_its_outputs_as_residuals() -> None:
    """The outer gradient stores the outputs separately, because a tuple cannot be an element of a tuple."""

    def build(wrap: Any, a: Any, b: Any) -> Any:
        inner = wrap(lambda x: (np.tanh(x), np.exp(x)))

        def body(x: Any, y: Any) -> Any:
            first, second = inner(x * y)
            return (first * second + second * inner(first)[1]).sum()

        (ga,) = ex.grad(wrap(body)(a, b), [a])
        return (ga * ga).sum()

    check_equal_gradients(build, A, B)


def test_a_gradient_inside_a_function() -> None:
    def build(wrap: Any, a: Any, b: Any) -> Any:
        step = wrap(lambda x, y: x - 0.1 * ex.grad(np.square(x * y - 1).sum(), x))
        return step(step(a, b), b).sum()

    check_equal_gradients(build, A, B)


def test_operands_without_a_gradient() -> None:
    """Test integers, comparisons and operands that no output depends on."""

    @ex.function
    def f(x: Any, n: Any, unused: Any) -> Any:
        return (ex.where(n > 1, x * 2, x)).sum(), n + 1

    x, n, unused = ex.tensor(A), ex.tensor([0, 1, 2]), ex.tensor(B)
    total, _ = f(x, n, unused)
    gradient, nothing = ex.grad(total, [x, unused])
    np.testing.assert_array_equal(ex.evaluate(gradient), [1.0, 1.0, 2.0])
    assert nothing.operation.name == "zeros"


def test_an_unneeded_gradient_is_not_recorded() -> None:
    """In a call and nested calls, only the matrix product for the weights' gradient is recorded."""

    @ex.function
    def product(x: Any, w: Any) -> Any:
        return x @ w

    @ex.function
    def outer(x: Any, w: Any) -> Any:
        return np.tanh(product(x, w))

    x, w = ex.tensor(np.ones((2, 3))), ex.tensor(np.ones((3, 4)))
    for wanted, products in (([w], 1), ([x, w], 2)):
        gradient = ex.grad(outer(x, w).sum(), wanted)
        bodies = [node.operation.body for node in reachable(gradient) if isinstance(node.operation, Call)]
        for body in bodies:
            bodies += [node.operation.body for node in body.nodes if isinstance(node.operation, Call)]
        backward = {id(body): body for body in bodies if body.name == "product gradient"}
        names = [node.operation.name for body in backward.values() for node in body.nodes]
        assert names.count("matmul") == products


def test_bodies_are_differentiated_once() -> None:
    """A hundred calls share one augmented and one gradient body; the first, with an x without gradient, has its own."""

    @ex.function
    def layer(x: Any, w: Any) -> Any:
        return np.tanh(x * w)

    x, w = ex.tensor(A), ex.tensor(B)
    y: Any = x
    for _ in range(100):
        y = layer(y, w)
    gradient = ex.grad(y.sum(), w)
    calls = {id(node.operation.body) for node in reachable([gradient]) if isinstance(node.operation, Call)}
    assert len(calls) <= 5
    expected_y, expected = A, np.zeros(3)
    for _ in range(100):
        previous, expected_y = expected_y, np.tanh(expected_y * B)
        expected = (1 - expected_y**2) * (previous + B * expected)
    np.testing.assert_allclose(ex.evaluate(gradient), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_through_calls_keep_the_dtype(dtype: Any) -> None:
    @ex.function
    def f(x: Any, y: Any) -> Any:
        return (x * y).sum()

    x, y = ex.tensor(A.astype(dtype)), ex.tensor(B)
    gx, gy = ex.grad(f(x, y), [x, y])
    assert (gx.dtype, gy.dtype) == (dtype, np.float64)
    np.testing.assert_allclose(ex.evaluate(gx), B, rtol=1e-6)


def test_operands_with_partly_shared_gradients() -> None:
    def build(wrap: Any, a: Any, b: Any, c: Any) -> Any:
        return wrap(lambda x, y, n, z: (x + y + n * 0 + z * z).sum())(a, b, ex.tensor([1, 2, 3]), c)

    check_equal_gradients(build, A, B, A + B)


def test_gradients_of_an_output_with_two_readers_are_summed() -> None:
    """This includes readers that have the output from separate items of the call."""
    x = ex.tensor(A)
    first, _ = ex.function(lambda a: (a * 2.0, a * 3.0))(x)
    (call,) = first.operands
    again = record(item(0), (call,))
    assert again is not first
    np.testing.assert_allclose(ex.evaluate(ex.grad((first * again).sum(), x)), 8 * A, rtol=1e-14)


def accumulated(*nodes: Any) -> set[str]:
    """Return the policies of nodes, including those inside calls."""
    results: set[str] = set()
    pending = reachable(nodes)
    while pending:
        operation = pending.pop().operation
        if isinstance(operation, Call):
            pending += operation.body.nodes
        elif isinstance(operation, Adjusted):
            results.update(map(repr, operation.policies))
    return results


@pytest.mark.spec("M-E9")
def test_the_gradient_of_a_body_is_created_for_each_set_of_policies() -> None:
    """It uses the scope's policies, unless the body has its own."""
    x, bias = ex.tensor(np.ones((4, 3), np.float16)), ex.tensor(np.ones(3, np.float16))
    add = ex.function(lambda a, b: (a + b) * 2)
    single, double = "AccumulationPolicy.dtype = float32", "AccumulationPolicy.dtype = float64"
    plain = add(x, bias)
    assert accumulated(ex.grad(plain.sum(), bias)) == set()
    with ex.policies(ex.PAccumulateIn("float64")):
        assert accumulated(ex.grad(plain, bias, seed=x)) == {double}
        inside = add(x, bias)
    assert accumulated(ex.grad(plain, bias, seed=x)) == set()
    with ex.policies(ex.PAccumulateIn("float32")):
        assert accumulated(ex.grad(plain, bias, seed=x)) == {single}
        assert accumulated(ex.grad(inside, bias, seed=x)) == {double}


def test_the_gradient_of_a_call_has_the_location_of_the_request() -> None:
    """Its recomputed nodes are next to the call, and other nodes keep their location."""
    x = ex.tensor(A)
    with ex.scope("forward"):
        y = ex.function(lambda a: np.tanh(a) * a)(x)
    gradient = ex.grad(y.sum(), x)
    assert gradient.location is not None
    assert gradient.location.text.startswith("gradient =")
    calls = {node.operation.label: node for node in reachable([gradient]) if isinstance(node.operation, Call)}
    beside, backward = [node for node in calls.values() if node.scope is not None] if len(calls) == 2 else (y, y)
    assert {repr(beside.scope).split("/")[0], repr(backward.scope).split("/")[0]} == {"forward", "gradient"}
