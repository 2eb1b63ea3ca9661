"""Model files for tests of runtimes: the files of assets with seeded weights, and blocks written with onnx.helper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import explorer as ex
from assets import seeded
from explorer.record import Recording

ASSETS = Path(seeded.__file__).parent
MODELS = ("resnet18", "mobilenet_v2", "yolo-like", "encoder", "encoder_opset14", "llama block", "lstm", "int8", "fp16")
_FLOAT, _HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def model(name: str, folder: Path) -> tuple[Path, dict[str, Any], float | None]:
    """Return the path of a model, its inputs, and the maximum relative error of its values (None: the default)."""
    if name == "int8":
        return ASSETS / "digits_int8.onnx", {"image": np.load(ASSETS / "digits.npz")["images"]}, 0.02
    path = folder / f"{name.replace(' ', '_')}.onnx"
    written = {"yolo-like": _yolo, "llama block": _llama, "fp16": _half}
    proto = written[name]() if name in written else _seeded(ASSETS / "models" / f"{name}.onnx")
    onnx.save(proto, path)
    tolerance = 1e-2 if name == "fp16" else 1e-3
    return path, {value.name: _given(value) for value in proto.graph.input}, tolerance


def cover(net: ex.Net, recording: Recording) -> tuple[set[int], set[int], int]:
    """Return the nodes with a time, the nodes computed before the run, and the number of operators."""
    nodes, schedule, run = recording.nodes, recording.schedule, recording.run
    assert schedule is not None
    assert run is not None
    timed = {node for step in run.steps for node in schedule.kernels[step.kernel].nodes}
    early = {
        node for node, known in nodes.attributes.items() if known.get("computed by", "").endswith("before the run")
    }
    return timed, early, len(net.definition.operators)


def _given(value: onnx.ValueInfoProto) -> Any:
    tensor = value.type.tensor_type
    shape = tuple([length.dim_value or 2 for length in tensor.shape.dim])
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return seeded.given("input", shape, "int64" if dtype.kind == "i" else "float32").astype(dtype)


def _seeded(path: Path) -> ModelProto:
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            drawn = seeded.weight(tensor.name, tuple(tensor.dims)).astype(dtype)
            tensor.CopyFrom(numpy_helper.from_array(drawn, tensor.name))
    return proto


class _Writer:
    """Nodes and weights of a model that is written."""

    def __init__(self, code: int = _FLOAT) -> None:
        self.code, self.nodes, self.tensors = code, list[NodeProto](), list[TensorProto]()

    def node(self, type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{type.lower()}_{len(self.nodes)}" + f":{index}" * (outputs > 1) for index in range(outputs)]
        self.nodes.append(helper.make_node(type, inputs, names, f"/{names[0]}", **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, name: str, *shape: int) -> str:
        array = seeded.weight(name, shape).astype(helper.tensor_dtype_to_np_dtype(self.code))
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def constant(self, values: Any, dtype: str = "int64") -> str:
        self.tensors.append(numpy_helper.from_array(np.asarray(values, dtype), f"constant {len(self.tensors)}"))
        return self.tensors[-1].name

    def model(self, shape: tuple[int, ...], output: str) -> ModelProto:
        x, y = (
            helper.make_tensor_value_info("x", self.code, shape),
            helper.make_tensor_value_info(output, self.code, None),
        )
        graph = helper.make_graph(self.nodes, "net", [x], [y], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def conv(self, name: str, x: str, inner: int, outer: int, size: int = 3, stride: int = 1) -> str:
        weight, bias = self.weight(f"{name}.weight", outer, inner, size, size), self.weight(f"{name}.bias", outer)
        pad = [size // 2] * 4
        y: str = self.node("Conv", x, weight, bias, kernel_shape=[size, size], pads=pad, strides=[stride, stride])
        return y


def _yolo() -> ModelProto:
    """Return a backbone with SiLU and split blocks, and a head with upsampling and concatenation, as in YOLO."""
    g = _Writer()

    def block(name: str, x: str, inner: int, outer: int, size: int = 3, stride: int = 1) -> str:
        y = g.conv(name, x, inner, outer, size, stride)
        return str(g.node("Mul", y, g.node("Sigmoid", y)))

    x = block("stem", "x", 3, 16, 3, 2)
    x = block("down1", x, 16, 32, 3, 2)
    half, other = g.node("Split", x, outputs=2, axis=1, num_outputs=2)
    other = g.node("Add", other, block("split.b", block("split.a", other, 16, 16), 16, 16))
    fine = block("join", g.node("Concat", half, other, axis=1), 32, 32, 1)
    coarse = block("down2", fine, 32, 64, 3, 2)
    pooled = g.node("MaxPool", coarse, kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
    coarse = block("pool", g.node("Concat", coarse, pooled, axis=1), 128, 64, 1)
    scales = g.constant([1, 1, 2, 2], "float32")
    larger = g.node("Resize", coarse, "", scales, mode="nearest")
    head = g.conv("head", block("up", g.node("Concat", larger, fine, axis=1), 96, 32), 32, 20, 1)
    rows = g.node("Transpose", g.node("Reshape", head, g.constant([1, 20, -1])), perm=[0, 2, 1])
    boxes, scores = g.node("Split", rows, g.constant([4, 16]), outputs=2, axis=2)
    return g.model((1, 3, 320, 320), g.node("Concat", boxes, g.node("Sigmoid", scores), axis=2))


def _llama() -> ModelProto:
    """Return a block of a language model: RMS norm, rotary positions, causal attention, and a gated product."""
    g, width, heads, length = _Writer(), 256, 4, 128
    size = width // heads

    def norm(name: str, x: str) -> str:
        mean = g.node("ReduceMean", g.node("Mul", x, x), g.constant([-1]))
        root = g.node("Sqrt", g.node("Add", mean, g.constant(1e-5, "float32")))
        return str(g.node("Mul", g.node("Div", x, root), g.weight(f"{name}.weight", width)))

    def split(name: str, x: str) -> str:
        y = g.node("MatMul", x, g.weight(f"{name}.weight", width, width))
        return str(g.node("Transpose", g.node("Reshape", y, g.constant([1, length, heads, size])), perm=[0, 2, 1, 3]))

    angles = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, size, 2) / size))
    cos, sin = (g.constant(np.tile(f(angles), 2), "float32") for f in (np.cos, np.sin))

    def rotated(x: str) -> str:
        first, second = g.node("Split", x, outputs=2, axis=-1, num_outputs=2)
        turned = g.node("Concat", g.node("Neg", second), first, axis=-1)
        return str(g.node("Add", g.node("Mul", x, cos), g.node("Mul", turned, sin)))

    x = norm("norm1", "x")
    q, k, v = rotated(split("q", x)), rotated(split("k", x)), split("v", x)
    scores = g.node("Mul", g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2])), g.constant(0.125, "float32"))
    mask = g.constant(np.triu(np.full((length, length), -1e9), 1), "float32")
    attended = g.node("MatMul", g.node("Softmax", g.node("Add", scores, mask), axis=-1), v)
    joined = g.node("Reshape", g.node("Transpose", attended, perm=[0, 2, 1, 3]), g.constant([1, length, width]))
    h = g.node("Add", "x", g.node("MatMul", joined, g.weight("o.weight", width, width)))
    x = norm("norm2", h)
    gate = g.node("MatMul", x, g.weight("gate.weight", width, 512))
    up = g.node("MatMul", x, g.weight("up.weight", width, 512))
    gated = g.node("Mul", g.node("Mul", gate, g.node("Sigmoid", gate)), up)
    return g.model((1, length, width), g.node("Add", h, g.node("MatMul", gated, g.weight("down.weight", 512, width))))


def _half() -> ModelProto:
    """Return convolutions and a product in float16, for which CPUs have no kernels."""
    g = _Writer(_HALF)
    x = g.node("Relu", g.conv("a", "x", 3, 16))
    x = g.node("Relu", g.node("Add", g.conv("b", x, 16, 16), x))
    pooled = g.node("Flatten", g.node("GlobalAveragePool", x))
    return g.model((1, 3, 64, 64), g.node("Softmax", g.node("MatMul", pooled, g.weight("fc.weight", 16, 10))))
