"""Tensor types are interned: equal types are one object, and invalid ones raise an error."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.types.tensor_type import TensorType, TupleType, broadcast_shapes, normalize_axes
from tests.support.refusals import refused

shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


def test_equal_types_are_one_object() -> None:
    type_ = TensorType((2, 3), np.float32)
    for same in (
        TensorType((2, 3), "float32"),
        TensorType([2, 3], np.dtype("f4")),
        TensorType((np.int64(2), 3), ">f4"),
        type_.with_dtype("f8").with_dtype("f4"),
        pickle.loads(pickle.dumps(type_)),
    ):
        assert same is type_
    assert TensorType((2, 3), np.float64) is not type_
    pair = TupleType((type_, type_))
    assert TupleType((type_, type_)) is pair is pickle.loads(pickle.dumps(pair))
    assert pair.nbytes == 2 * type_.nbytes == 48


@pytest.mark.parametrize("shape", [(-1,), (2.5,), (2.0,), ("a",), (None,), 1.5])
def test_invalid_shapes_raise_an_error(shape: Any) -> None:
    with pytest.raises(ex.OperandError):
        TensorType(shape, np.float32)
    with pytest.raises(ex.OperandError):
        ex.ZeroTensor(shape)
    with pytest.raises(ex.OperandError):
        ex.broadcast_to(ex.tensor(1.0), shape)


@pytest.mark.parametrize("dtype", ["nonsense", object, str, "M8[D]", "V4", None])
def test_invalid_element_types_raise_an_error(dtype: Any) -> None:
    with pytest.raises(ex.OperandError):
        TensorType((2,), dtype)


@pytest.mark.spec("M-D3")
def test_categories_have_metanns_names() -> None:
    words = [TensorType((1,) * rank).category for rank in range(5)]
    assert words == ["scalar", "vector", "matrix", "three-d array", "4-d array"]
    assert repr(TensorType((2, 0, 3), np.int8)) == "2×0×3 int8"
    assert TensorType((2, 0, 3)).size == TensorType((2, 0, 3)).nbytes == 0


@given(st.lists(shapes, max_size=3))
def test_broadcasting_equals_numpys(given_shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        expected = None
    assert broadcast_shapes(*given_shapes) == expected


@pytest.mark.parametrize("axes", [(0, 0), (0, -2), (-1, 1)])
def test_an_axis_may_be_given_only_once_from_either_end(axes: tuple[int, ...]) -> None:
    with refused(ex.OperandError, "axis"):
        normalize_axes(axes, 2, "sum")


@pytest.mark.parametrize(
    "given_dtype", ["float32", ">f4", np.dtype("f8").newbyteorder("="), np.dtype(">i2"), bool, "c16"]
)
def test_a_number_has_numpys_own_dtype_object(given_dtype: Any) -> None:
    """However a dtype is given, NumPy's own object of it is used, because a copy has no name in the buffer protocol."""
    dtype = TensorType((2,), given_dtype).dtype
    assert dtype is np.dtype(dtype.name)
    assert dtype.isbuiltin == 1
    value = ex.evaluate(ex.tensor(np.ones(2, given_dtype)) * ex.tensor(np.ones(2, given_dtype)))
    assert value.dtype is dtype
