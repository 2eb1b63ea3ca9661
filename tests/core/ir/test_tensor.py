"""Tensors: known values in read-only storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import tensor_of
from tests.support.refusals import refused


def test_a_tensor_copies_its_array() -> None:
    """Later changes to the array do not affect the tensor."""
    array = np.array([1.0, 2.0])
    x = ex.tensor(array)
    array[0] = 7
    assert x.array.tolist() == [1.0, 2.0]
    assert array.flags.writeable


@pytest.mark.spec("M-D8")
def test_shared_storage_is_read_only() -> None:
    """Writing raises an error, both through the tensor and through the adopted array."""
    array = np.array([1.0, 2.0])
    x = ex.tensor(array, copy=False)
    assert np.shares_memory(x.array, array)
    for held in (array, x.array, ex.evaluate(x)):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 1.0
    with refused(ex.StateError):
        x[0] = 1.0


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[1:],
        lambda array: array.T,
        lambda array: np.broadcast_to(array[0], (3, 2)),
        lambda array: _frozen(array[:]),
        lambda array: _frozen(array[:])[1:],
    ],
)
def test_views_of_writable_arrays_are_copied(view: Any) -> None:
    """The base could still be modified, even if the view itself is read-only."""
    array = np.ones((2, 2))
    with refused(ex.OperandError):
        ex.tensor(view(array), copy=False)
    assert array.flags.writeable


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def test_views_of_frozen_memory_are_not_copied() -> None:
    whole = ex.tensor(np.arange(6.0))
    part = ex.tensor(whole.array[2:], copy=False)
    assert np.shares_memory(part.array, whole.array)
    assert ex.tensor(np.frombuffer(b"\0" * 8, np.float32), copy=False).shape == (2,)


@pytest.mark.parametrize(
    "value", [None, "ab", [[1], [1, 2]], [object()], [10**30], {"a": 1}, np.array(["2020-01-01"], "M8[D]"), [1, "a"]]
)
def test_values_that_are_no_numeric_arrays_raise_an_error(value: Any) -> None:
    with pytest.raises(ex.OperandError, match=r"ex\.tensor"):
        ex.tensor(value)


def test_other_errors() -> None:
    x = ex.tensor([1.0])
    for value in (x + 1, [x, x], [1.0, [x]], (x,)):
        with refused(ex.OperandError):
            ex.tensor(value)
    with pytest.raises(ex.OperandError, match="mask"):
        ex.tensor(np.ma.array([1, 2], mask=[False, True]))
    with pytest.raises(ex.OperandError, match="300"):
        ex.tensor([300], dtype=np.int8)
    with pytest.raises(ex.OperandError, match="nonsense"):
        ex.tensor([1], dtype="nonsense")
    with pytest.raises(
        ex.OperandError, match=r"must be one of NumPy's\n.*a name is passed by keyword, name=\"weights\""
    ):
        ex.tensor([1], "weights")
    for text in (",", "(", "a b"):
        with pytest.raises(ex.OperandError, match="must be one of NumPy's"):
            ex.tensor([1], text)


def test_values_become_native_and_contiguous() -> None:
    x = ex.tensor(np.array([[1.5, 2.5], [3.5, 4.5]], ">f4").T)
    assert x.dtype == np.float32
    assert x.dtype.isnative
    assert x.type is ex.TensorType((2, 2), np.float32)
    assert x.array.flags.c_contiguous
    assert ex.tensor(np.float32(2)).shape == ()
    assert ex.tensor(x).array.tolist() == x.array.tolist()
    assert ex.tensor([[1, 2]], dtype=np.float32, name="w").name == "w"


def test_tensors_with_the_same_storage_are_one_value() -> None:
    storage = Storage(np.ones(3))
    first, second = tensor_of(storage), tensor_of(storage)
    assert first.storage.token == second.storage.token
    assert Storage(np.ones(3)).token != storage.token
    assert first is not second


@pytest.mark.spec("M-D8", "M-D11")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_numbers_outside_an_integer_dtype_are_not_assigned(dtype: str) -> None:
    """The number may be a Python number, a NumPy number, or an element of an array."""
    limits = np.iinfo(dtype)
    above: Any = np.float64(2.0) ** (limits.bits + 1)
    wide = [np.uint64(limits.max + 1)] if limits.max + 1 < 2**64 else []
    narrow = [np.int64(limits.min - 1)] if limits.min - 1 >= -(2**63) else []
    wrong = [limits.max + 1, limits.min - 1, above, -above, np.nan, np.inf, np.array([1, np.nan, 2]), *wide, *narrow]
    tensor = ex.tensor(np.full(3, 7, dtype))
    for value in wrong:
        with pytest.raises(ex.OperandError, match="writing"):
            tensor[:] = value
        with pytest.raises(ex.OperandError, match="writing"):
            tensor[0] = value if np.ndim(value) == 0 else value[1]
        if isinstance(value, np.generic):
            with pytest.raises(ex.OperandError, match="as an element of dtype"):
                ex.TrivialTensor(value, (2,), np.dtype(dtype))
    np.testing.assert_array_equal(tensor.array, [7, 7, 7])
    for value in (limits.max, np.float64(5), np.int8(3), np.array([1, 2, 3]), [], True):
        tensor[: np.size(value)] = value
        np.testing.assert_array_equal(tensor.array[: np.size(value)], np.atleast_1d(value).astype(dtype))


@pytest.mark.spec("M-D8")
def test_storage_is_frozen_again_after_an_assignment() -> None:
    """Between assignments, and after a failed one, only the tensor can write, and it counts its writes."""
    tensor = ex.tensor([1.0, 2.0])
    tensor[0] = 5.0
    assert not tensor.array.flags.writeable
    with pytest.raises(ex.OperandError, match="writing"):
        tensor[9] = 5.0
    assert not tensor.array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor.array[0] = 7.0


@pytest.mark.spec("M-D8")
def test_a_value_computed_from_the_tensor_is_not_assigned_to_it() -> None:
    """Evaluating data whose expression reads the tensor shares the tensor's storage."""
    tensor = ex.tensor([1.0, 2.0])

    class Doubled:
        """Twice the tensor."""

        type = tensor.type

        def __expr__(self) -> ex.Expr:
            return tensor * 2.0

    with pytest.raises(ex.StateError, match="shared"):
        tensor[:] = Doubled()
    assert tensor.array.tolist() == [1.0, 2.0]


def test_the_smallest_and_largest_elements_of_an_array_have_an_index() -> None:
    tensor = ex.tensor(np.full(3, 7, np.uint8))
    for value in ([-1, 0, 1], [0, 1, 256], [-1.0, 5.0, 300.0]):
        with pytest.raises(ex.OperandError, match="is not in 0 … 255"):
            tensor[:] = np.array(value)
    np.testing.assert_array_equal(tensor.array, [7, 7, 7])
