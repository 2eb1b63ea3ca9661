"""One small net as files of several precisions, with the names that converters write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def small_files(folder: Path) -> dict[str, Path]:
    """Write a net as float32, float16, float16 with float32 ends, QDQ and QOperator, with the converters' names.

    onnxruntime's quantizer leaves the Relu out, and its float16 converter adds casts of the graph's ends.
    """
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.default_rng(3)
    weights = {
        "k": random.normal(size=(4, 1, 3, 3)).astype("float32"),
        "w": random.normal(size=(4 * 6 * 6, 5)).astype("float32") / 12,
    }
    pad = {"kernel_shape": [3, 3], "pads": [0, 0, 0, 0]}

    def chain(x: str, y: str) -> list[Any]:
        return [
            helper.make_node("Conv", [x, "k"], ["c"], "conv", **pad),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("Flatten", ["r"], ["f"], "flatten"),
            helper.make_node("MatMul", ["f", "w"], ["g"], "matmul"),
            helper.make_node("Sigmoid", ["g"], [y], "sigmoid"),
        ]

    def write(name: str, nodes: list[Any], arrays: dict[str, Any], ends: int = TensorProto.FLOAT) -> Path:
        infos = [helper.make_tensor_value_info(end, ends, shape) for end, shape in (("x", [2, 1, 8, 8]), ("y", [2, 5]))]
        stored = [numpy_helper.from_array(array, key) for key, array in arrays.items()]
        graph = helper.make_graph(nodes, "small", infos[:1], infos[1:], stored)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        save(model, path := folder / f"{name}.onnx")
        return path

    halves = {key: array.astype("float16") for key, array in weights.items()}
    casts = [
        helper.make_node("Cast", ["x"], ["graph_input_cast_0"], "graph_input_cast0", to=TensorProto.FLOAT16),
        *chain("graph_input_cast_0", "graph_output_cast_0"),
        helper.make_node("Cast", ["graph_output_cast_0"], ["y"], "graph_output_cast0", to=TensorProto.FLOAT),
    ]
    stored, nodes = dict[str, Any](), list[Any]()

    def quantized(name: str, low: float, high: float, source: str = "", result: str = "") -> str:
        step = np.float32((high - low) / 255)
        stored[f"{name}_scale"], stored[f"{name}_zero_point"] = step, np.uint8(round(-low / step))
        ends = [f"{name}_scale", f"{name}_zero_point"]
        result = result or f"{name}_DequantizeLinear_Output"
        between = f"{name}_QuantizeLinear_Output"
        nodes.extend(
            [
                helper.make_node("QuantizeLinear", [source or name, *ends], [between], f"{name}_QuantizeLinear"),
                helper.make_node("DequantizeLinear", [between, *ends], [result], f"{name}_DequantizeLinear"),
            ]
        )
        return result

    for name, array in weights.items():
        stored[f"{name}_quantized"] = np.round(array / np.float32(0.02)).clip(-127, 127).astype("int8")
        stored[f"{name}_scale"], stored[f"{name}_zero_point"] = np.float32(0.02), np.int8(0)
        inputs = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
        output = f"{name}_DequantizeLinear_Output"
        nodes.append(helper.make_node("DequantizeLinear", inputs, [output], f"{name}_DequantizeLinear"))
    x = quantized("x", -4, 4)
    nodes.append(helper.make_node("Conv", [x, "k_DequantizeLinear_Output"], ["r"], "conv", **pad))
    nodes.append(helper.make_node("Flatten", [quantized("r", 0, 12)], ["f"], "flatten"))
    flat = quantized("f", 0, 12)
    nodes.append(helper.make_node("MatMul", [flat, "w_DequantizeLinear_Output"], ["g"], "matmul"))
    nodes.append(helper.make_node("Sigmoid", [quantized("g", -9, 9)], ["y_QuantizeLinear_Input"], "sigmoid"))
    quantized("y", 0, 1, "y_QuantizeLinear_Input", "y")
    ends = {"x": (-4, 4), "c": (0, 12), "g": (-9, 9), "y": (0, 1)}
    integers = {key: array for key, array in stored.items() if key.startswith(("k_", "w_"))}
    for name, (low, high) in ends.items():
        step = np.float32((high - low) / 255)
        integers |= {f"{name}_scale": step, f"{name}_zero_point": np.uint8(round(-low / step))}

    def parameters(*names: str) -> list[str]:
        return [f"{name}{part}" for name in names for part in ("_scale", "_zero_point")]

    def integer(name: str) -> list[str]:
        return [f"{name}_quantized", *parameters(name)]

    products = [
        helper.make_node("QuantizeLinear", ["x", *parameters("x")], ["x_quantized"], "x_QuantizeLinear"),
        helper.make_node(
            "QLinearConv", [*integer("x"), *integer("k"), *parameters("c")], ["c_quantized"], "conv_quant", **pad
        ),
        helper.make_node("Flatten", ["c_quantized"], ["f_quantized"], "flatten"),
        helper.make_node(
            "QLinearMatMul",
            ["f_quantized", *parameters("c"), *integer("w"), *parameters("g")],
            ["g_quantized"],
            "matmul_quant",
        ),
        helper.make_node(
            "QLinearSigmoid",
            [*integer("g"), *parameters("y")],
            ["y_quantized"],
            "sigmoid_quant",
            domain="com.microsoft",
        ),
        helper.make_node("DequantizeLinear", integer("y"), ["y"], "y_DequantizeLinear"),
    ]
    return {
        "float32": write("float32", chain("x", "y"), weights),
        "float16": write("float16", chain("x", "y"), halves, TensorProto.FLOAT16),
        "casts": write("casts", casts, halves),
        "int8": write("int8", nodes, stored),
        "integers": write("integers", products, integers),
    }


SMALL = np.random.default_rng(5).normal(size=(2, 1, 8, 8)).astype("float32")
