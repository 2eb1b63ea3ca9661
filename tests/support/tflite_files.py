"""TensorFlow Lite files of small nets: one in two precisions, and two with two graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tflite
from flatbuffers import flexbuffers

from assets.tflite_models import Graph, Node, Tensor, constant, file


def small_tflite_files(folder: Path) -> dict[str, Path]:
    """Write a net as float32 and as int8 TensorFlow Lite files, with int8 inputs and outputs."""
    random = np.random.default_rng(3)
    filters = random.normal(size=(4, 3, 3, 1)).astype("float32")
    matrix = random.normal(size=(5, 4 * 6 * 6)).astype("float32") / 12
    ranges = {"x": (-4.0, 4.0), "c": (0.0, 12.0), "f": (0.0, 12.0), "g": (-9.0, 9.0)}
    shapes = {"x": (2, 8, 8, 1), "c": (2, 6, 6, 4), "f": (2, 144), "g": (2, 5), "y": (2, 5)}
    conv = {"Padding": tflite.Padding.VALID, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    conv["FusedActivationFunction"] = tflite.ActivationFunctionType.RELU
    nodes = [
        Node("CONV_2D", ["x", "k", "b"], ["c"], "Conv2DOptions", conv),
        Node("RESHAPE", ["c", "s"], ["f"], "ReshapeOptions"),
        Node("FULLY_CONNECTED", ["f", "w", "d"], ["g"], "FullyConnectedOptions"),
        Node("LOGISTIC", ["g"], ["y"]),
    ]
    shape = {"s": constant([2, 144], "int32")}
    biases = {"b": np.zeros(4), "d": np.zeros(5)}
    reals = {name: Tensor(shape) for name, shape in shapes.items()}
    reals |= {"k": constant(filters), "w": constant(matrix)} | shape
    reals |= {name: constant(bias, "float32") for name, bias in biases.items()}
    steps = {name: (high - low) / 255 for name, (low, high) in ranges.items()}
    integers = {
        name: Tensor(shapes[name], "int8", scale=(step,), zero_point=(round(-128 - ranges[name][0] / step),))
        for name, step in steps.items()
    }
    integers["y"] = Tensor(shapes["y"], "int8", scale=(1 / 256,), zero_point=(-128,))
    for name, array in (("k", filters), ("w", matrix)):
        step = float(np.abs(array).max() / 127)
        rounded = np.round(array / step).astype("int8")
        integers[name] = constant(rounded, "int8", scale=(step,), zero_point=(0,))
    for name, scale in (("b", ("x", "k")), ("d", ("f", "w"))):
        one, other = (integers[each].scale[0] for each in scale)
        integers[name] = constant(biases[name], "int32", scale=(one * other,), zero_point=(0,))
    paths = {"float32": reals, "int8": integers | shape}
    for name, tensors in paths.items():
        (folder / f"{name}.tflite").write_bytes(file(Graph(tensors, nodes, ["x"], ["y"])))
    return {name: folder / f"{name}.tflite" for name in paths}


def two_graphs(folder: Path) -> Path:
    """Write a file with the signatures prefill and decode, of two graphs."""
    first = Graph({"x": Tensor((2,)), "y": Tensor((2,))}, [Node("TANH", ["x"], ["y"])], ["x"], ["y"])
    tensors = {"a": Tensor((2,)), "m": Tensor((2,)), "b": Tensor((2,))}
    second = Graph(tensors, [Node("TANH", ["a"], ["m"]), Node("LOGISTIC", ["m"], ["b"])], ["a"], ["b"], name="second")
    signatures = [("prefill", 0, {"x": 0}, {"y": 1}), ("decode", 1, {"in": 0}, {"out": 2})]
    target = folder / "two.tflite"
    target.write_bytes(file(first, second, signatures=signatures))
    return target


def composite(folder: Path) -> Path:
    """Write a file with an operator whose computation is its second graph."""
    inner = Graph(
        {"a": Tensor((2,)), "m": Tensor((2,)), "b": Tensor((2,))},
        [Node("TANH", ["a"], ["m"]), Node("LOGISTIC", ["m"], ["b"])],
        ["a"],
        ["b"],
    )
    options = {
        "DecompositionSubgraphIndex": 1,
        "Version": 1,
        "Name": "own",
        "CompositeAttributes": bytes(flexbuffers.Dumps({})),
    }
    node = Node("STABLEHLO_COMPOSITE", ["x"], ["y"], "StableHLOCompositeOptions", options)
    outer = Graph({name: Tensor((2,)) for name in "xyz"}, [node, Node("TANH", ["y"], ["z"])], ["x"], ["z"])
    target = folder / "composite.tflite"
    target.write_bytes(file(outer, inner))
    return target
