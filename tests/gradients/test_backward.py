"""The backward pass: shared operands, seeds, unreached inputs, declined decisions, and deep graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.traversal import reachable
from explorer.ops.creation.constants import Zero
from tests.support.refusals import refused


@pytest.fixture
def x() -> ex.Tensor:
    return ex.tensor([1.0, 2.0, 3.0])


def test_gradients_of_shared_operands_are_summed(x: ex.Tensor) -> None:
    y = np.tanh(x)
    loss = (y * y + y * x + x).sum()
    t = np.tanh([1.0, 2.0, 3.0])
    expected = (2 * t + [1, 2, 3]) * (1 - t * t) + t + 1
    gradient = ex.grad(loss, x)
    np.testing.assert_allclose(ex.evaluate(gradient), expected, rtol=1e-14)
    sums = [node for node in reachable([gradient]) if node.operation.name == "add_n"]
    assert len(sums) == 2  # one n-ary sum for x, one for y


def test_an_operand_used_twice_by_one_operation(x: ex.Tensor) -> None:
    np.testing.assert_array_equal(ex.evaluate(ex.grad((x * x).sum(), x)), [2.0, 4.0, 6.0])
    np.testing.assert_array_equal(ex.evaluate(ex.grad(ex.stack([x, x, x]).sum(), x)), [3.0, 3.0, 3.0])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 1), (4, 1, 1)])
@pytest.mark.parametrize("operation", ["add", "subtract", "multiply", "divide", "maximum", "power"])
def test_gradients_of_broadcast_operands_are_summed(shape: tuple[int, ...], operation: str) -> None:
    """They are reduced to the operand's shape."""
    generator = np.random.default_rng(0)
    a, b = generator.uniform(1, 2, shape), generator.uniform(1, 2, (2, 3))
    left, right = ex.tensor(a), ex.tensor(b)
    apply = getattr(ex, operation)
    result = ex.evaluate(ex.grad(apply(left, right).sum(), [left, right]))
    whole = ex.tensor(np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)).copy())
    other = ex.tensor(np.broadcast_to(b, whole.shape).copy())
    expected = ex.evaluate(ex.grad(apply(whole, other).sum(), [whole, other]))
    for part, full in zip(result, expected, strict=True):
        extra = full.ndim - part.ndim
        axes = (*range(extra), *(extra + i for i, n in enumerate(part.shape) if n == 1 != full.shape[extra + i]))
        np.testing.assert_allclose(part, full.sum(axis=axes).reshape(part.shape), rtol=1e-13)


def test_an_unreached_input_has_the_structured_zero(x: ex.Tensor) -> None:
    """A gradient of an input that the loss does not depend on stores nothing and has a reason."""
    other = ex.tensor(np.ones((2, 2), np.float32))
    reached, unreached = ex.grad(x.sum(), [x, other])
    assert isinstance(unreached.operation, Zero)
    assert unreached.scope is not None
    assert unreached.scope.kind == "gradient", "it stands in no box of the nodes before it"
    assert unreached.operation.cause == "unreached"
    assert unreached.type is other.type
    np.testing.assert_array_equal(ex.evaluate(unreached), np.zeros((2, 2)))
    np.testing.assert_array_equal(ex.evaluate(reached), [1.0, 1.0, 1.0])
    assert isinstance(ex.grad(np.sign(x).sum(), x).operation, Zero)
    assert isinstance(ex.grad((x > 2).astype(np.float64).sum(), x).operation, Zero)


def test_containers_keep_their_structure(x: ex.Tensor) -> None:
    y = x * 2
    gradient = ex.grad((y * x).sum(), {"x": x, "more": (y, [x])})
    assert set(gradient) == {"x", "more"}
    np.testing.assert_array_equal(ex.evaluate(gradient["x"]), [4.0, 8.0, 12.0])
    np.testing.assert_array_equal(ex.evaluate(gradient["more"][0]), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(ex.evaluate(gradient["more"][1][0]), [4.0, 8.0, 12.0])


def test_the_gradient_of_a_value_with_respect_to_itself_is_the_seed(x: ex.Tensor) -> None:
    total = x.sum()
    assert float(ex.grad(total, total)) == 1.0
    np.testing.assert_array_equal(ex.evaluate(ex.grad(x, x, seed=np.array([1.0, 2.0, 4.0]))), [1.0, 2.0, 4.0])


@pytest.mark.parametrize("seed", [np.array([1.0, 2.0, 4.0]), [1, 2, 4], ex.tensor([1.0, 2.0, 4.0])])
def test_a_seed_weights_the_elements(seed: Any, x: ex.Tensor) -> None:
    gradient = ex.grad(x * x, x, seed=seed)
    assert gradient.dtype == np.float64
    np.testing.assert_array_equal(ex.evaluate(gradient), [2.0, 8.0, 24.0])


@pytest.mark.parametrize(
    ("attempt", "rule"),
    [
        (lambda x: ex.grad(x, x), "a seed of its shape"),
        (lambda x: ex.grad(x.astype(np.int64).sum(), x), "real floating dtype"),
        (lambda x: ex.grad((x * 1j).sum(), x), "real floating dtype"),
        (lambda x: ex.grad(abs(x * 1j).sum(), x), "must be real"),
        (lambda x: ex.grad(x.sum(), ex.tensor([1, 2])), "real floating"),
        (lambda x: ex.grad(x.sum(), 3), "container of expressions"),
        (lambda x: ex.grad(x.sum(), []), "container of expressions"),
        (lambda x: ex.grad([x.sum()], x), "one expression"),
        (lambda x: ex.grad(3.0, x), "one expression"),
        (lambda x: ex.grad(x, x, seed=np.ones(2)), "the loss's shape"),
        (lambda x: ex.grad(x, x, seed=np.ones((3, 1))), "the loss's shape"),
        (lambda x: ex.grad(x, x, seed=np.ones((1, 3))), "the loss's shape"),
        (lambda x: ex.grad(x, x, seed=2.0), "the loss's shape"),
        (lambda x: ex.grad(x.sum(), x, seed="a"), "fit the dtype"),
    ],
)
def test_values_without_a_gradient_raise_an_error(attempt: Any, rule: str, x: ex.Tensor) -> None:
    with pytest.raises(ex.OperandError, match=rule):
        attempt(x)


@pytest.mark.parametrize("wrong", [lambda g: g.sum(), lambda g: g * ex.tensor(np.ones((2, 1)))])
def test_the_error_of_a_gradient_with_the_wrong_shape_contains_its_operation(wrong: Any, x: ex.Tensor) -> None:
    """Wrong axes are not summed, unlike broadcast axes of elementwise operations."""
    from explorer.core import registry

    class Wrong(ex.Operation):
        """Its gradient has the wrong shape."""

        unbatchable = "it only exists to fail"
        examples = (ex.Example(ex.real(3)),)

        def infer(self, a: ex.TensorType) -> ex.TensorType:
            return a

        def kernel(self, out: Any, a: Any) -> Any:
            np.copyto(out, a)
            return out

        def gradient(self, g: Any, y: Any, a: Any) -> Any:
            return (wrong(g),)

        def flops(self, result: Any, a: Any) -> int:
            return 0

    try:
        with refused(ex.OperandError, "a gradient must have its operand's shape"):
            ex.grad(Wrong()(x).sum(), x)
    finally:
        del registry.operations["wrong"], registry.functions["wrong"]


def test_gradients_at_special_points() -> None:
    """x⁰, x², |x| and max(x, y) at 0 and at ties: no NaN where the derivative is 0 or shared."""
    zero = ex.tensor([0.0, -0.0])
    cases = {0: 0.0, 1: 1.0, 2: 0.0, 3: 0.0}
    for exponent, expected in cases.items():
        np.testing.assert_array_equal(ex.evaluate(ex.grad((zero**exponent).sum(), zero)), [expected] * 2)
    base, exponents = ex.tensor([0.0, 0.0, 2.0]), ex.tensor([0.0, 2.0, 3.0])
    by_base, by_exponent = ex.evaluate(ex.grad((base**exponents).sum(), [base, exponents]))
    np.testing.assert_array_equal(by_base, [0.0, 0.0, 12.0])
    np.testing.assert_allclose(by_exponent, [0.0, 0.0, 8 * np.log(2.0)])
    negative = ex.tensor([-2.0, -1.0])
    np.testing.assert_array_equal(ex.evaluate(ex.grad((negative**3).sum(), negative)), [12.0, 3.0])
    np.testing.assert_array_equal(ex.evaluate(ex.grad(abs(zero).sum(), zero)), [0.0, 0.0])
    tie = ex.tensor([1.0, 2.0])
    np.testing.assert_array_equal(ex.evaluate(ex.grad(np.maximum(tie, tie + 0).sum(), tie)), [1.0, 1.0])
    same = ex.tensor([2.0, 2.0, 1.0])
    np.testing.assert_array_equal(ex.evaluate(ex.grad(same.max(), same)), [0.5, 0.5, 0.0])


@pytest.mark.soak
def test_a_chain_of_100_000_is_differentiated(x: ex.Tensor) -> None:
    """Without recursion, in linear time."""
    y: ex.Expr = x
    for _ in range(100_000):
        y = y + x
    gradient = ex.grad(y.sum(), x)
    assert gradient.operation.name == "add_n"
    assert len(gradient.operands) == 100_001


def test_the_gradient_of_an_intermediate_value_stops_there(x: ex.Tensor) -> None:
    """It records nothing below the value."""
    middle = ex.max_pool2d(x.reshape(1, 1, 1, 3), (1, 2), 1)
    first = ex.grad(middle.sum(), x)
    again = ex.grad((first * 2).sum(), first)
    np.testing.assert_array_equal(ex.evaluate(again), [2.0, 2.0, 2.0])


@pytest.mark.parametrize("given", ["float32", "float16"])
@pytest.mark.parametrize("other", ["float64", "int64"])
def test_a_gradient_has_the_dtype_of_its_input(given: str, other: str) -> None:
    """Wherever an operation computes in a wider one, and whatever dtype a seed has."""
    x, wide = ex.tensor(np.array([1.0, 2.0], given)), ex.tensor(np.array([3, 4], other))
    for gradient in (ex.grad((x * wide).sum(), x), ex.grad(x, x, seed=np.array([3, 4], other))):
        assert gradient.dtype == given
        np.testing.assert_array_equal(ex.evaluate(gradient), np.array([3, 4], given))


def test_no_gradient_passes_through_integers(x: ex.Tensor) -> None:
    """A rounded value is constant almost everywhere, so its input's gradient is the structured zero."""
    rounded = (x * 2.0).astype(np.int64)
    gradient = ex.grad((rounded * x).sum(), [x])[0]
    np.testing.assert_array_equal(ex.evaluate(gradient), [2.0, 4.0, 6.0])
    unreached = ex.grad((rounded * ex.tensor([1.0, 1.0, 1.0])).sum(), x)
    assert isinstance(unreached.operation, Zero)


@pytest.mark.parametrize(
    ("shape", "other"),
    [((1, 3), (1, 2, 3)), ((2, 1), (1, 2, 3)), ((1, 1), (4, 1, 3)), ((3,), (1, 1, 3)), ((), (1, 2)), ((1,), (0, 1))],
)
def test_only_broadcast_axes_are_summed(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    """These are prepended axes and repeated axes of size 1."""
    x, wide = ex.tensor(np.ones(shape)), np.random.default_rng(0).normal(size=other)
    gradient = ex.evaluate(ex.grad((x * ex.tensor(wide)).sum(), x))
    spread = np.broadcast_to(np.ones(shape), np.broadcast_shapes(shape, other)) * wide
    axes = tuple(range(spread.ndim - len(shape)))
    ones = tuple([axis for axis, size in enumerate(shape) if size == 1])
    np.testing.assert_allclose(gradient, spread.sum(axis=axes).sum(axis=ones, keepdims=True), rtol=1e-14)
