"""Dtypes of 8 bits or fewer that NumPy lacks: read from files, passed, cast, quantized, displayed, saved."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened

NARROW = {
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.INT2: ml_dtypes.int2,
    TensorProto.UINT2: ml_dtypes.uint2,
}
NUMBERS = np.array([[1, 0.5, -1, 2, 1], [1, 4, 1, -2, 1], [0.5, 1, 1, 2, 1]], np.float32)
each = pytest.mark.parametrize("code", NARROW, ids=lambda code: TensorProto.DataType.Name(code))


@each
@pytest.mark.parametrize("form", ["raw", "numbers", "external"])
def test_stored_in_a_file(tmp_path: Path, code: int, form: str) -> None:
    """Packed or unpacked weights with an odd number of elements, in the file or external, are read exactly."""
    array = NUMBERS.astype(NARROW[code])
    tensor = numpy_helper.from_array(array, "w")
    assert tensor.HasField("raw_data")
    if form == "numbers":
        tensor.int32_data.extend(tensor.raw_data)
        tensor.ClearField("raw_data")
    elif form == "external":
        (tmp_path / "w.bin").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
    proto = model(
        [node("Cast", ["w"], ["wide"], to=FLOAT), node("Add", ["x", "wide"], ["y"])], {"x": (FLOAT, [3, 5])}, ["y"]
    )
    proto.graph.initializer.append(tensor)
    net = opened(proto, tmp_path)
    assert net.check() == []
    np.testing.assert_array_equal(net.run(np.zeros((3, 5), np.float32)), array.astype(np.float32))


@each
def test_passed_and_returned(tmp_path: Path, code: int) -> None:
    """Inputs and outputs have the file's dtype; moving elements keeps their bits; other dtypes raise an error."""
    net = opened(model([node("Transpose", ["x"], ["y"])], {"x": (code, [3, 5])}, ["y"]), tmp_path)
    array = NUMBERS.astype(NARROW[code])
    result = net.run(array)
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result.astype(np.float32), array.T.astype(np.float32))
    with pytest.raises(ex.OperandError, match="the array must be as the file says"):
        net.run(NUMBERS)


@each
def test_displayed_with_values(tmp_path: Path, code: int) -> None:
    """A recording of a run has the dtype's name and a summary of the numbers."""
    nodes = [node("Transpose", ["x"], ["t"]), node("Cast", ["t"], ["y"], to=FLOAT)]
    net = opened(model(nodes, {"x": (code, [3, 5])}, ["y"]), tmp_path)
    array = NUMBERS.astype(NARROW[code])
    net.explore(array)
    run = net.plan(array, record="values").eval().recording.run
    assert run is not None
    summaries = run.values
    wide = array.astype(np.float32)
    finite = wide[np.isfinite(wide)]
    assert array.dtype.name in {summary.dtype for summary in summaries.values()}
    for summary in summaries.values():
        assert (summary.min, summary.max) == (finite.min(), finite.max())


@pytest.mark.parametrize(
    ("saturate", "numbers"), [(1, [448, -448, 448, np.nan, 0.0]), (0, [np.nan, np.nan, np.nan, np.nan, 0.0])]
)
def test_saturation_of_casts(tmp_path: Path, saturate: int, numbers: list[float]) -> None:
    """By default numbers out of range, including infinity, become the nearest limit; otherwise they become NaN."""
    operator = node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN, saturate=saturate)
    net = opened(model([operator], {"x": (FLOAT, [5])}, ["y"]), tmp_path)
    x = np.array([1e6, -1e6, np.inf, np.nan, 1e-9], np.float32)
    np.testing.assert_array_equal(net.run(x).astype(np.float32), np.array(numbers, np.float32))


def test_quantized_to_four_bits_and_back(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [4])}, ["y", "q"], {"scale": np.float32(0.5)}, opset=21)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(1).astype(ml_dtypes.int4), "zero"))
    results = opened(proto, tmp_path).run(np.array([0.3, -9, 9, 1], np.float32))
    assert results["q"].dtype == ml_dtypes.int4
    np.testing.assert_array_equal(results["q"].astype(int), [2, -8, 7, 3])
    np.testing.assert_array_equal(results["y"], [0.5, -4.5, 3, 1])


def test_bfloat16_is_rounded_and_stored_as_float32(tmp_path: Path) -> None:
    """A cast to bfloat16 rounds, and arrays of bfloat16 are accepted as inputs."""
    nodes = [node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), node("Cast", ["b"], ["y"], to=FLOAT)]
    net = opened(model(nodes, {"x": (FLOAT, [2])}, ["y"]), tmp_path)
    x = np.array([1.001, 3.14159], np.float32)
    rounded = x.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(net.run(x), rounded.astype(np.float32))
    given = opened(model([node("Neg", ["x"], ["y"])], {"x": (TensorProto.BFLOAT16, [2])}, ["y"]), tmp_path, "b.onnx")
    np.testing.assert_array_equal(
        given.run(x.astype(ml_dtypes.bfloat16)), -x.astype(ml_dtypes.bfloat16).astype(np.float32)
    )


@each
def test_saved_and_opened_again(tmp_path: Path, code: int) -> None:
    """A saved net has its narrow weights, bit for bit."""
    array = NUMBERS.astype(NARROW[code])
    proto = model(
        [node("Cast", ["w"], ["wide"], to=FLOAT), node("Add", ["x", "wide"], ["y"])], {"x": (FLOAT, [3, 5])}, ["y"]
    )
    proto.graph.initializer.append(numpy_helper.from_array(array, "w"))
    opened(proto, tmp_path).save(tmp_path / "saved.json")
    again = ex.open(tmp_path / "saved.json")
    np.testing.assert_array_equal(again.run(np.zeros((3, 5), np.float32)), array.astype(np.float32))
