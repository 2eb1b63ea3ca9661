"""MetaNN's data types: constructors that check the rank, and structured tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex


@pytest.mark.spec("M-D1")
@pytest.mark.parametrize(
    ("make", "value"), [(ex.Scalar, 1.5), (ex.Vector, [1.0]), (ex.Matrix, [[1.0]]), (ex.ThreeDArray, [[[1.0]]])]
)
def test_constructors_check_the_rank(make: Any, value: Any) -> None:
    """Scalar, Vector, Matrix and ThreeDArray are tensors of a checked rank."""
    x = make(value, np.float32, name="x")
    assert (x.dtype, x.name) == (np.float32, "x")
    assert x.array.tolist() == value
    with pytest.raises(ex.OperandError, match=f"a {make.__name__} has rank {x.ndim}"):
        make([value])


@pytest.mark.spec("M-D2", "M-D11")
def test_structured_tensors_store_nothing() -> None:
    """ZeroTensor, TrivialTensor and BiasVector are described, not stored; the position counts from zero."""
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
def test_one_hot_positions_lie_inside(length: Any, position: Any) -> None:
    with pytest.raises(ex.OperandError):
        ex.BiasVector(length, position)
