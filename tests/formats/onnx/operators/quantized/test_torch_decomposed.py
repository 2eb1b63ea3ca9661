"""Quantized torch programs give torch's results, in files from torch's exporter.

``assets/torch_quantized.py`` created them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import explorer as ex
from explorer.formats.onnx.operators import TABLE
from tests.formats.onnx.models import opened
from tests.support.refusals import refused

STORED = np.load(Path(__file__).parents[5] / "assets" / "torch_quantized.npz")
CASES = [key.removesuffix("/file") for key in STORED.files if key.endswith("/file")]
NETS = ("pictures", "layers", "choose")
"""cases whose sums, minima and divisions have another order"""


def _model(case: str) -> onnx.ModelProto:
    return onnx.load_from_string(STORED[f"{case}/file"].tobytes())


def _stored(case: str, letter: str) -> list[np.ndarray]:
    keys = [f"{case}/{letter}{place}" for place in range(9)]
    return [STORED[key] for key in keys if key in STORED.files]


@pytest.mark.parametrize("case", CASES)
def test_results_equal_those_of_torch(tmp_path: Path, case: str) -> None:
    """Single operators and dtypes are equal bit for bit, nets up to the last digits of single precision."""
    net = opened(_model(case), tmp_path)
    # torch's exporter records dtypes that its own operator does not return
    is_noted = not case.startswith("choose_qparams_per_token") or "asymmetric" in case
    assert [str(problem) for problem in net.check() if is_noted or "where the file declares" not in str(problem)] == []
    results: Any = net.run(*_stored(case, "x"))
    expected = _stored(case, "y")
    for result, wanted in zip(results.values() if len(expected) > 1 else [results], expected, strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        if case.startswith(NETS) and wanted.dtype.kind == "f":
            np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(result, wanted)


def test_every_operator_of_the_table_has_a_case() -> None:
    stored = {f"{node.domain}.{node.op_type}" for case in CASES for node in _model(case).graph.node}
    assert {type for type in TABLE.types() if type.startswith("quantized_decomposed.")} <= stored


@pytest.mark.parametrize(
    ("case", "change", "words"),
    [
        ("quantize within limits", {"quant_min": -1}, ("quant_min=-1", "within 0 … 255 of uint8")),
        ("quantize within limits", {"quant_max": 0}, ("quant_max=0", "quant_min must be less")),
        ("quantize channels", {"axis": 0}, ("for axis 0", "per index of the axis")),
        ("quantize tokens", {"dtype": 2}, ("quant_min=-128", "uint8")),
        ("dequantize groups", {"group_size": 7}, ("groups of 7", "divide the length")),
        ("choose_qparams_per_token", {"dtype": 2}, ("dtype=uint8", "must be int8")),
        ("quantize within limits", {"dtype": 1}, ("dtype=float32", "an integer dtype")),
        ("choose_qparams torch.int8", {"quant_min": 1}, ("quant_min=1", "0 must be within the limits")),
    ],
)
def test_mismatching_operands_raise_an_error(
    tmp_path: Path, case: str, change: dict[str, int], words: tuple[str, ...]
) -> None:
    """Test limits outside the dtype, scales whose number differs from the axis, and dtypes that torch rejects."""
    model = _model(case)
    node = next(node for node in model.graph.node if node.domain == "quantized_decomposed")
    for attribute in node.attribute:
        attribute.i = change.get(attribute.name, attribute.i)
    with refused(ex.FileError, *words):
        opened(model, tmp_path).run(*_stored(case, "x"))


def test_a_scale_of_zero_raises_an_error(tmp_path: Path) -> None:
    model = _model("quantize within limits")
    name = next(node for node in model.graph.node if node.domain == "quantized_decomposed").input[1]
    tensors = [*model.graph.initializer, *[a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]]
    stored = [tensor for tensor in tensors if tensor.name == name or tensor.name == "scale"]
    for tensor in stored:
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(0.0), tensor.name))
    assert stored
    with refused(ex.FileError, "scale=0.0", "the scale must be positive"):
        opened(model, tmp_path).run(*_stored("quantize within limits", "x"))


def test_integers_are_converted_to_the_dtype_of_the_scale(tmp_path: Path) -> None:
    """int32 biases become float32 before the multiplication, as in torch."""
    case = "dequantize channels"
    model = _model(case)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    _, scale, zero = _stored(case, "x")
    whole = np.random.default_rng(8).integers(-(1 << 30), 1 << 30, _stored(case, "x")[0].shape, dtype=np.int32)
    scale = scale.astype(np.float32)
    result = opened(model, tmp_path).run(whole, scale, zero)
    axis = next(attribute.i for attribute in model.graph.node[0].attribute if attribute.name == "axis")
    form = [1] * whole.ndim
    form[axis] = -1
    expected = (whole - zero.reshape(form)).astype(np.float32) * scale.reshape(form)
    np.testing.assert_array_equal(result, expected)
    assert np.any(expected != ((whole - zero.reshape(form)) * scale.reshape(form)).astype(np.float32))
