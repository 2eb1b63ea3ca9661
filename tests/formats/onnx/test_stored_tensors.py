"""Stored ONNX tensors: they must have the number of elements of their shape, each within the dtype's range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import explorer as ex
from explorer.formats.onnx.stored_tensors import dense_tensor
from tests.formats.onnx.models import FLOAT, INT64, model, node, opened

HALF, SHORT = TensorProto.FLOAT16, TensorProto.BFLOAT16


def array(kind: int, shape: list[int], **fields: Any) -> Any:
    return dense_tensor(TensorProto(data_type=kind, dims=shape, **fields), "w", Path("m.onnx"), {}).array()


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (TensorProto.INT8, -128, 127),
        (TensorProto.UINT8, 0, 255),
        (TensorProto.INT16, -(2**15), 2**15 - 1),
        (TensorProto.UINT16, 0, 2**16 - 1),
        (TensorProto.UINT32, 0, 2**32 - 1),
        (TensorProto.INT32, -(2**31), 2**31 - 1),
    ],
)
def test_elements_stored_in_a_wider_type_must_be_in_the_range_of_their_dtype(kind: int, low: int, high: int) -> None:
    """Both limits are read; one beyond either raises an error, since no conversion would keep it."""
    field = "uint64_data" if kind == TensorProto.UINT32 else "int32_data"
    assert array(kind, [3], **{field: [low, 1, high]}).tolist() == [low, 1, high]
    outside = [number for number in (low - 1, high + 1) if kind != TensorProto.INT32]
    for number in outside:
        if field == "uint64_data" and number < 0:
            continue
        with pytest.raises(
            ex.FileError, match=rf"'w' of .* has elements from .*\n.*elements of this dtype must be in {low} … {high}"
        ):
            array(kind, [2], **{field: [number, 1]})


@pytest.mark.parametrize("kind", [HALF, SHORT, TensorProto.BOOL])
@pytest.mark.parametrize("number", [-1, 2**16])
def test_bits_of_halves_and_booleans_must_fit_their_width(kind: int, number: int) -> None:
    with pytest.raises(ex.FileError, match="elements of this dtype must be in 0"):
        array(kind, [1], int32_data=[number])


def test_halves_and_complex_numbers_are_read() -> None:
    """Bits of halves are stored as integers, parts of complex numbers alternate, and bfloat16 is widened."""
    assert array(HALF, [2], int32_data=[0x3C00, 0xC000]).tolist() == [1.0, -2.0]
    assert array(SHORT, [2], int32_data=[0x3F80, 0xC000]).tolist() == [1.0, -2.0]
    assert array(SHORT, [2], raw_data=b"\x80\x3f\x00\xc0").tolist() == [1.0, -2.0]
    assert array(TensorProto.COMPLEX64, [1], float_data=[1, 2]).tolist() == [1 + 2j]
    assert not array(TensorProto.BOOL, [1], int32_data=[1]).flags.writeable


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (TensorProto.FLOAT, {"raw_data": bytes(9)}, r"9 bytes, but \(2,\) of float32 needs 8"),
        (TensorProto.FLOAT, {"raw_data": bytes(7)}, "7 bytes"),
        (TensorProto.FLOAT, {"float_data": [1, 2, 3]}, "3 numbers"),
        (TensorProto.FLOAT, {"float_data": [1]}, "1 numbers"),
        (TensorProto.FLOAT, {}, "0 numbers"),
        (TensorProto.COMPLEX64, {"float_data": [1, 2]}, "2 numbers, .* needs 4"),
        (SHORT, {"raw_data": bytes(8)}, "8 bytes, .* needs 4"),
        (TensorProto.INT8, {"int64_data": [1, 2]}, "0 numbers"),
    ],
)
def test_a_tensor_must_have_the_number_of_elements_of_its_shape(kind: int, fields: dict[str, Any], said: str) -> None:
    """Fewer raise an error, and so do more, because they belong to another tensor."""
    with pytest.raises(ex.FileError, match=f"'w' has {said}"):
        array(kind, [2], **fields)


def test_a_segmented_tensor_raises_an_error_whatever_else_it_contains() -> None:
    segment = TensorProto.Segment(begin=0, end=1)
    for fields in ({"raw_data": bytes(8)}, {"float_data": [1, 2]}, {}):
        with pytest.raises(ex.FileError, match="'w' is stored in segments"):
            array(TensorProto.FLOAT, [2], segment=segment, **fields)


def test_a_field_that_a_dtype_does_not_use_is_ignored(tmp_path: Path) -> None:
    """float64 elements are raw bytes or in their own field, so integers in another field mean nothing."""
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": (TensorProto.DOUBLE, [2])}, ["y"], {"w": np.ones(2)})
    proto.graph.initializer[0].int32_data.append(1 << 20)
    np.testing.assert_array_equal(opened(proto, tmp_path).run(np.zeros(2)), [1, 1])


@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4), (0, 1), (2, 0), (0,), (0, 0, 3)])
def test_integer_arrays_without_elements_keep_all_their_axes(shape: tuple[int, ...], tmp_path: Path) -> None:
    """An operator's integer arguments are lists, which cannot represent axes after one of length 0."""
    nodes = [node("Add", ["x", "none"], ["y"]), node("Shape", ["y"], ["lengths"])]
    net = opened(model(nodes, {"x": (INT64, [1])}, ["y", "lengths"], {"none": np.zeros(shape, np.int64)}), tmp_path)
    values = net.run(np.array([1]))
    assert (values["y"].shape, tuple(values["lengths"])) == (shape, shape)


def test_empty_updates_scatter_nothing(tmp_path: Path) -> None:
    operator = node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    constants = {"i": np.zeros((0, 1), np.int64), "u": np.zeros(0, np.float32)}
    net = opened(model([operator], {"x": (FLOAT, [3])}, ["y"], constants), tmp_path)
    np.testing.assert_array_equal(net.run(np.arange(3, dtype=np.float32)), [0, 1, 2])
