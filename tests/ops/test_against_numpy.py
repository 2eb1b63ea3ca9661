"""Operations against NumPy for random shapes: empty axes, axes of size 1, any rank."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

import explorer as ex
from tests.support.refusals import refused

shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
dtypes = st.sampled_from([np.float64, np.float32, np.int64, np.int8])


def draw(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    return np.random.default_rng(len(shape)).uniform(-5, 5, shape).astype(dtype)


def check(made: ex.Expr, expected: Any) -> None:
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(ex.evaluate(made), expected, rtol=1e-5)


@pytest.mark.spec("M-O3")
@given(mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=4), dtypes, dtypes)
def test_binary_operations_broadcast(given_shapes: Any, first: Any, second: Any) -> None:
    """Shapes broadcast as NumPy's: a matrix plus a 3-D array is a 3-D array."""
    a, b = (draw(shape, dtype) for shape, dtype in zip(given_shapes.input_shapes, (first, second), strict=True))
    x, y = ex.tensor(a), ex.tensor(b)
    check(x + y, a + b)
    check(x * y, a * b)
    check(np.maximum(x, y), np.maximum(a, b))
    check(ex.where(x > y, x, y), np.where(a > b, a, b))


@given(st.lists(shapes, min_size=2, max_size=2))
def test_shapes_that_do_not_fit_are_refused(pair: Any) -> None:
    a, b = (np.ones(shape) for shape in pair)
    try:
        expected = a + b
    except ValueError:
        with refused(ex.OperandError, "axes"):
            ex.tensor(a) + ex.tensor(b)
    else:
        check(ex.tensor(a) + ex.tensor(b), expected)


@given(shapes, dtypes, st.data())
def test_reductions(shape: Any, dtype: Any, data: st.DataObject) -> None:
    a = draw(shape, dtype)
    chosen = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True) if shape else st.just([]))
    axes = data.draw(st.sampled_from([None, tuple(chosen)]))
    keepdims = data.draw(st.booleans())
    x = ex.tensor(a)
    check(x.sum(axes, keepdims), np.asarray(a.sum(axis=axes, keepdims=keepdims)))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of an empty array
        check(x.mean(axes, keepdims), np.asarray(a.mean(axis=axes, keepdims=keepdims)))
    try:
        expected = np.asarray(a.max(axis=axes, keepdims=keepdims))
    except ValueError:
        with refused(ex.OperandError, "element"):
            x.max(axes, keepdims)
    else:
        check(x.max(axes, keepdims), expected)
        check(x.min(axes, keepdims), np.asarray(a.min(axis=axes, keepdims=keepdims)))


@given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 3), max_size=4))
def test_matmul(first: list[int], second: list[int]) -> None:
    a, b = draw(tuple(first)), draw(tuple(second))
    try:
        expected = np.asarray(a @ b)
    except ValueError:
        with pytest.raises(ex.OperandError):
            ex.tensor(a) @ ex.tensor(b)
    else:
        check(ex.tensor(a) @ ex.tensor(b), expected)


index = st.one_of(
    st.integers(-5, 5),
    st.builds(slice, *[st.none() | st.integers(-6, 6)] * 2, st.none() | st.sampled_from([-3, -1, 2])),
)


@settings(max_examples=300)
@given(shapes, st.lists(st.one_of(index, st.none(), st.just(...)), max_size=5))
def test_indexing(shape: Any, entries: list[Any]) -> None:
    a = draw(shape)
    try:
        expected = np.asarray(a[tuple(entries)])
    except IndexError:
        with pytest.raises(ex.OperandError):
            ex.tensor(a)[tuple(entries)]
        return
    x = ex.tensor(a)
    part = x[tuple(entries)]
    check(part, expected)
    back = np.zeros(shape)
    back[tuple(entries)] = 1
    np.testing.assert_array_equal(ex.evaluate(ex.grad(part.sum(), x)), back)


@given(shapes, st.data())
def test_movement(shape: Any, data: st.DataObject) -> None:
    a = draw(shape)
    x = ex.tensor(a)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    check(x.transpose(order), a.transpose(order))
    check(x.T, a.T)
    check(x.reshape(-1), a.reshape(-1))
    check(ex.flatten(x), a.reshape(-1))
    check(ex.squeeze(x), np.squeeze(a))
    place = data.draw(st.integers(-len(shape) - 1, len(shape)))
    check(ex.expand_dims(x, place), np.expand_dims(a, place))
    check(ex.stack([x, x + 1], place), np.stack([a, a + 1], place))
    check(ex.broadcast_to(x, (2, *shape)), np.broadcast_to(a, (2, *shape)))
    if shape:
        axis = data.draw(st.integers(-len(shape), len(shape) - 1))
        check(ex.concatenate([x, x, x], axis), np.concatenate([a, a, a], axis))


@pytest.mark.parametrize("count", [(0, 2), (2, 0), (2, 2)])
def test_convolutions_of_empty_batches_or_filters(count: tuple[int, int]) -> None:
    """The result is empty, and gradients have the right shapes."""
    images, filters = ex.tensor(np.ones((count[0], 3, 4, 4))), ex.tensor(np.ones((count[1], 3, 2, 2)))
    y = ex.conv2d(images, filters)
    assert ex.evaluate(y).shape == (*count, 3, 3)
    for gradient, operand in zip(ex.evaluate(ex.grad(y.sum(), [images, filters])), (images, filters), strict=True):
        assert gradient.shape == operand.shape


def test_half_precision_means_do_not_overflow() -> None:
    x = ex.tensor(np.full(100_000, 2.0, np.float16))
    assert x.mean().dtype == np.float16
    assert float(x.mean()) == 2.0


def test_functions_of_unsigned_integers_do_not_wrap_around() -> None:
    """For uint8, the value at 1 is not the value at −1 converted to unsigned."""
    a = np.array([0, 1, 200], np.uint8)
    x, exact = ex.tensor(a), a.astype(np.float64)
    np.testing.assert_allclose(ex.evaluate(ex.sigmoid(x)), 1 / (1 + np.exp(-exact)), rtol=2e-3)
    np.testing.assert_allclose(ex.evaluate(ex.silu(x)), exact / (1 + np.exp(-exact)), rtol=2e-3)
    np.testing.assert_allclose(ex.evaluate(ex.softmax(x[:2])), np.exp(exact[:2]) / np.exp(exact[:2]).sum(), rtol=2e-3)
    np.testing.assert_allclose(ex.evaluate(ex.logsumexp(x[:2])), np.log(1 + np.e), rtol=2e-3)


@pytest.mark.parametrize(
    ("first", "second", "fix"),
    [
        ((32, 47), (48,), "give both the same size along that axis, or one of them size 1"),
        ((32, 47), (32,), r"\.reshape\(\(32, 1\)\) of the 32 operand"),
        ((2, 3, 4), (2, 3), r"\.reshape\(\(2, 3, 1\)\) of the 2×3 operand"),
        ((3, 2), (2, 3), r"transpose one of them: x\.T"),
    ],
)
def test_the_fix_for_shapes_that_do_not_broadcast_fits_them(
    first: tuple[int, ...], second: tuple[int, ...], fix: str
) -> None:
    with pytest.raises(ex.OperandError, match=fix):
        ex.tensor(np.ones(first)) + ex.tensor(np.ones(second))
