"""Write tests/compilers/stored/onnxruntime_*.zip: what onnxruntime 1.32.0 logs and writes for two small models.

``.venv-bench/bin/python assets/onnxruntime_sessions.py`` records the digits network and a block of an encoder. Each
archive contains the files that the child process of the adapter writes, without large weights.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

import explorer as ex
from assets import seeded
from explorer.compilers.adapters.onnxruntime.story import create_sessions

STORED = Path(__file__).parents[1] / "tests" / "compilers" / "stored"
KEPT = ("given.onnx", "sessions.json", "profile.json", "*[0-9].onnx", "0.log")
LENGTH, WIDTH, HEADS = 8, 16, 2


def encoder_block() -> ModelProto:
    """Return a block with a norm before self-attention, residual sums, and a GELU."""
    nodes: list[Any] = []
    weights: list[TensorProto] = []

    def node(type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{type.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(type, inputs, [name], f"block/{name}", **attributes))
        return name

    def weight(name: str, *shape: int) -> str:
        weights.append(numpy_helper.from_array(seeded.weight(name, shape), name))
        return name

    def constant(values: Any, dtype: str) -> str:
        weights.append(numpy_helper.from_array(np.asarray(values, dtype), f"constant {len(weights)}"))
        return weights[-1].name

    def linear(name: str, x: str, inner: int, outer: int) -> str:
        return node("Add", node("MatMul", x, weight(f"{name}.weight", inner, outer)), weight(f"{name}.bias", outer))

    def norm(name: str, x: str) -> str:
        return node("LayerNormalization", x, weight(f"{name}.weight", WIDTH), weight(f"{name}.bias", WIDTH), axis=-1)

    def heads(name: str, x: str) -> str:
        shape = constant([1, LENGTH, HEADS, WIDTH // HEADS], "int64")
        return node("Transpose", node("Reshape", linear(name, x, WIDTH, WIDTH), shape), perm=[0, 2, 1, 3])

    x = norm("norm1", "x")
    scores = node("MatMul", heads("q", x), node("Transpose", heads("k", x), perm=[0, 1, 3, 2]))
    attended = node("MatMul", node("Softmax", node("Div", scores, constant(2.828, "float32")), axis=-1), heads("v", x))
    joined = node("Reshape", node("Transpose", attended, perm=[0, 2, 1, 3]), constant([1, LENGTH, WIDTH], "int64"))
    x = node("Add", "x", linear("o", joined, WIDTH, WIDTH))
    inner = node("Gelu", linear("up", norm("norm2", x), WIDTH, 32))
    result = norm("norm3", node("Add", x, linear("down", inner, 32, WIDTH)))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, LENGTH, WIDTH)) for name in ("x", result)]
    graph = helper.make_graph(nodes, "block", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def main() -> None:
    """Write the archives."""
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder_block.onnx"
        onnx.save(encoder_block(), path)
        x = seeded.given("input", (1, LENGTH, WIDTH), "float32")
        _store("encoder_block", path, {"x": x})
    images = np.load(Path(__file__).with_name("digits.npz"))["images"]
    _store("digits", Path(__file__).with_name("digits.onnx"), {"image": images[:2]})


def _store(name: str, path: Path, inputs: dict[str, Any]) -> None:
    net = ex.open(path)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        create_sessions(net, net.session.checked_arrays((inputs,), {}), folder, runs=2)
        _without_weights(folder / "given.onnx")
        with zipfile.ZipFile(STORED / f"onnxruntime_{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for file in sorted({file for pattern in KEPT for file in folder.glob(pattern)}):
                entry = zipfile.ZipInfo(file.name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())


def _without_weights(path: Path) -> None:
    """Declare all but small weights as parts of another file, which is not stored."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.ByteSize() > 512:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights")
    path.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
