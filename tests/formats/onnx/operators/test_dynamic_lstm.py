"""DynamicQuantizeLSTM against ONNX Runtime, in files that ONNX Runtime quantized (assets/dynamic_lstm.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer as ex
from tests.support.refusals import refused

REFERENCES = np.load(Path(__file__).parents[4] / "assets" / "dynamic_lstm.npz")
NAMES = [key.removesuffix(": file") for key in REFERENCES if key.endswith(": file")]

pytestmark = pytest.mark.spec("I-9")


def arrays(name: str, side: str) -> dict[str, np.ndarray]:
    start = f"{name}: {side} "
    return {key.removeprefix(start): REFERENCES[key] for key in REFERENCES if key.startswith(start)}


def model(name: str) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(REFERENCES[f"{name}: file"].tobytes())


@pytest.mark.parametrize("name", NAMES)
def test_the_result_equals_onnx_runtimes(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(REFERENCES[f"{name}: file"].tobytes())
    net = ex.open(tmp_path / "m.onnx")
    assert net.check() == []
    results, expected = net.run(arrays(name, "input")), arrays(name, "output")
    assert results.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(results[key], value, atol=2e-6)


def test_the_result_differs_from_the_unquantized_one(tmp_path: Path) -> None:
    assert all(node.op_type == "DynamicQuantizeLSTM" for name in NAMES for node in model(name).graph.node)
    changed = model("forward")
    (changed.graph.node[0].attribute.add()).CopyFrom(onnx.helper.make_attribute("clip", 0.25))
    onnx.save(changed, tmp_path / "m.onnx")
    results, expected = ex.open(tmp_path / "m.onnx").run(arrays("forward", "input")), arrays("forward", "output")
    assert np.abs(results["last_c"] - expected["last_c"]).max() > 0.01


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ("W_quantized", "W must have the shape"),
        ("R_quantized", r"R must have the shape"),
        ("W_scale", r"W_scale must have the shape \(1,\) or \(1, 20\)"),
        ("R_zero_point", r"R_zero_point must have the shape \(1,\) or \(1, 20\)"),
        ("B", "B must have the shape"),
    ],
)
def test_mismatching_operands_raise_an_error(weight: str, words: str, tmp_path: Path) -> None:
    changed = model("forward")
    (tensor,) = [each for each in changed.graph.initializer if each.name == weight]
    array = onnx.numpy_helper.to_array(tensor)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.concatenate([array] * 3), weight))
    onnx.save(changed, tmp_path / "m.onnx")
    with pytest.raises(ex.FileError, match=words):
        ex.open(tmp_path / "m.onnx").run(arrays("forward", "input"))


def test_an_unknown_attribute_raises_an_error(tmp_path: Path) -> None:
    changed = model("forward")
    changed.graph.node[0].attribute.add().CopyFrom(onnx.helper.make_attribute("layout", 1))
    onnx.save(changed, tmp_path / "m.onnx")
    with refused(ex.FileError, "layout=1", "DynamicQuantizeLSTM"):
        ex.open(tmp_path / "m.onnx").run(arrays("forward", "input"))
