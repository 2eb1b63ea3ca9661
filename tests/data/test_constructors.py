"""MetaNN's data types: constructors that check the rank, and structured tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused


@pytest.mark.spec("M-D1", headline=True)
@pytest.mark.parametrize(
    ("make", "value"), [(ex.Scalar, 1.5), (ex.Vector, [1.0]), (ex.Matrix, [[1.0]]), (ex.ThreeDArray, [[[1.0]]])]
)
def test_constructors_check_the_rank(make: Any, value: Any) -> None:
    """Create tensors of any rank; Scalar, Vector, Matrix and ThreeDArray check the rank."""
    x = make(value, np.float32, name="x")
    assert (x.dtype, x.name) == (np.float32, "x")
    assert x.array.tolist() == value
    with pytest.raises(ex.OperandError, match=f"a {make.__name__} must have rank {x.ndim}"):
        make([value])
    with refused(ex.OperandError, "dtype"):
        make(value, np.float32, dtype=np.float64)


@pytest.mark.spec("M-D2", "M-D11", headline=True)
def test_structured_tensors_store_nothing() -> None:
    """Represent zero, constant and one-hot tensors without storing their elements; positions are counted from zero."""
    zero, same, one_hot = ex.ZeroTensor((2, 3)), ex.TrivialTensor(2.5, (2, 3)), ex.BiasVector(100, 37, 4.0)
    np.testing.assert_array_equal(ex.evaluate(zero), np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(ex.evaluate(same), np.full((2, 3), 2.5, np.float32))
    assert ex.evaluate(one_hot)[37] == ex.evaluate(one_hot).sum() == 4.0
    big = ex.TrivialTensor(1.0, (10**6, 10**6))
    assert big.size == 10**12
    assert all(stride == 0 for stride in big.operation.compute().strides)


def test_values_are_converted_to_the_element_type() -> None:
    assert ex.evaluate(ex.TrivialTensor(2.7, (1,), np.int32)).tolist() == [2]
    assert ex.TrivialTensor(np.float64(2.5), ()).dtype == np.float32
    for value in (300, "a", [1.0, 2.0], float("nan"), 1j):
        with pytest.raises(ex.OperandError, match="as an element of dtype int8"):
            ex.TrivialTensor(value, (2,), np.int8)


@pytest.mark.parametrize(("length", "position"), [(3, 3), (3, -1), (0, 0), (2.5, 0), (3, 1.5)])
def test_one_hot_positions_must_be_in_range(length: Any, position: Any) -> None:
    with pytest.raises(ex.OperandError):
        ex.BiasVector(length, position)


def half(value: float) -> ex.Expr:
    """Return an expression without a value."""
    return ex.tensor(2 * np.full(2, value, np.float32)) / 2


@pytest.mark.spec("M-D4")
@pytest.mark.parametrize("expressions", [1, 3, 4, 5, 9])
def test_a_reversed_scalable_tensor_of_mostly_expressions(expressions: int) -> None:
    held = ex.ScalableTensor((2,))
    held.push_back(np.zeros(2, np.float32))
    for number in range(1, 1 + expressions):
        held.push_back(half(number))
    held.reverse()
    held.push_back(np.full(2, 7, np.float32))
    numbers = [*range(expressions, -1, -1), 7]
    np.testing.assert_array_equal(ex.evaluate(held.__expr__())[:, 1], numbers)


@pytest.mark.spec("M-D4")
@pytest.mark.parametrize("written", [False, True])
def test_each_use_of_a_scalable_tensor_has_its_content_at_that_time(written: bool) -> None:
    """Later pushes, clears and growth do not affect earlier uses, with or without expressions."""
    held = ex.ScalableTensor((2,))
    used: list[ex.Expr] = []
    for number in range(9):  # memory grows at the first, the fifth and the ninth
        held.push_back(half(number) if written and number % 3 == 1 else np.full(2, number, np.float32))
        used.append(held.__expr__() * 1)
    held.reverse()
    used.append(held.__expr__() * 1)
    held.push_back(half(9))
    held.reverse()
    used.append(held.__expr__() * 1)
    held.clear()
    with pytest.raises(ex.OperandError, match="an empty scalable tensor"):
        held.__expr__()
    for number in range(3):
        held.push_back(np.full(2, -1 - number, np.float32))
    used.append(held.__expr__() * 1)
    expected = [[*range(count)] for count in range(1, 10)] + [[*range(9)][::-1], [9, *range(9)], [-1, -2, -3]]
    for node, numbers in zip(used, expected, strict=True):
        np.testing.assert_array_equal(ex.evaluate(node)[:, 0], numbers)


@pytest.mark.spec("M-D9")
def test_memory_read_in_another_order_is_different_data() -> None:
    square = np.arange(9.0).reshape(3, 3)
    assert ex.same(square, square[:])
    assert not ex.same(square, square.T)
    assert not ex.same(square[:2], square[::2])


@pytest.mark.spec("M-D9")
def test_two_parameters_are_never_the_same() -> None:
    """Each gets its own value, even if their names are equal."""
    first, second = (ex.operation("parameter")(kind=ex.tensor(1.0).type, title="x")() for _ in range(2))
    assert first.operation is second.operation
    assert ex.same(first, first)
    assert not ex.same(first, second)
    assert not ex.same(first + 1, second + 1)
