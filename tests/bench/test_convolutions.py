"""Convolutions and poolings with an activation: explorer's NumPy and compiled kernels, onnxruntime, and torch eager."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.core.types.tensor_type import Array
from tests.bench.contest import samples, table

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]
PACKAGES = ["numpy", "onnxruntime", "torch"]


class Layer(NamedTuple):
    """Convolution with bias and clip to [0, 6] (filters (O, C / groups, h, w)), or max pooling (no filters)."""

    images: tuple[int, ...]
    filters: tuple[int, ...] = ()
    stride: int = 1
    padding: int = 0
    groups: int = 1

    def operands(self) -> tuple[Array, Array, Array]:
        """Return images, filters and bias."""
        random = np.random.default_rng(0)
        shapes = self.images, self.filters or (1,), self.filters[:1] or (1,)
        images, filters, bias = [random.normal(size=shape).astype(np.float32) for shape in shapes]
        return images, filters, bias


LAYERS = {
    "depthwise 3×3, 96×112×112": Layer((1, 96, 112, 112), (96, 1, 3, 3), padding=1, groups=96),
    "depthwise 3×3 / 2, 96×112×112": Layer((1, 96, 112, 112), (96, 1, 3, 3), 2, 1, 96),
    "depthwise 3×3, 384×14×14": Layer((1, 384, 14, 14), (384, 1, 3, 3), padding=1, groups=384),
    "first layer 3×3 / 2, 3×224×224": Layer((1, 3, 224, 224), (32, 3, 3, 3), 2, 1),
    "pointwise 24 → 144, 56×56": Layer((1, 24, 56, 56), (144, 24, 1, 1)),
    "max pooling 3×3 / 2, 64×112×112": Layer((1, 64, 112, 112), (), 2, 1),
}


def module(layer: Layer) -> Any:
    """Return the layer as a torch module."""
    import torch

    if not layer.filters:
        return torch.nn.MaxPool2d(3, layer.stride, layer.padding).eval()
    channels, (count, _, *size) = layer.images[1], layer.filters
    convolution = torch.nn.Conv2d(channels, count, size, layer.stride, layer.padding, groups=layer.groups)
    _, filters, bias = map(torch.from_numpy, layer.operands())
    convolution.load_state_dict({"weight": filters, "bias": bias})
    return torch.nn.Sequential(convolution, torch.nn.ReLU6()).eval()


def by_explorer(layer: Layer, kernels: Any) -> Callable[[], Array]:
    images, _, _ = layer.operands()
    import torch

    net = ex.open(module(layer), (torch.from_numpy(images),))
    return lambda: net.run(images, kernels=kernels)


def by_torch(layer: Layer) -> Callable[[], Array]:
    import torch

    images, _, _ = layer.operands()
    x, run_module = torch.from_numpy(images), module(layer)

    def run() -> Array:
        with torch.inference_mode():
            result: Array = run_module(x).numpy()
        return result

    return run


def by_onnxruntime(layer: Layer, threads: int) -> Callable[[], Array]:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    images, filters, bias = layer.operands()
    pads, strides = [layer.padding] * 4, [layer.stride] * 2
    given = {"w": filters, "b": bias, "low": np.float32(0), "high": np.float32(6)}
    if layer.filters:
        nodes = [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads, strides=strides, group=layer.groups),
            helper.make_node("Clip", ["c", "low", "high"], ["y"]),
        ]
    else:
        nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=pads, strides=strides)]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, layer.images)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in given.items() if layer.filters],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": images})[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_layers(threads: int) -> None:
    """All contestants agree; print medians in ms, and the ratio of compiled kernels to onnxruntime."""
    import torch

    torch.set_num_threads(threads)
    rows = []
    with threadpool_limits(threads):
        for name, layer in LAYERS.items():
            runs = {
                "explorer": by_explorer(layer, "numpy"),
                "compiled": by_explorer(layer, "native"),
                "onnxruntime": by_onnxruntime(layer, threads),
                "torch": by_torch(layer),
            }
            results = {contestant: run() for contestant, run in runs.items()}
            for value in results.values():
                np.testing.assert_allclose(value, results["torch"], rtol=1e-4, atol=1e-4)
            times = {contestant: median(spent) for contestant, spent in samples(runs, rounds=7, burst=4).items()}
            ratio = times["compiled"] / times["onnxruntime"]
            rows.append([name, *[f"{spent:.3f}" for spent in times.values()], f"{ratio:.2f}"])
    header = ["", "explorer", "compiled", "onnxruntime", "torch", "compiled : onnxruntime"]
    print(table(f"layers, ms, {threads} threads", header, rows, PACKAGES))
