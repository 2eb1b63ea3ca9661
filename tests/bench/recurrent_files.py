"""ONNX files with a recurrent operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def saved(path: Path, kind: str, steps: int, members: int, hidden: int, features: int) -> Path:
    """Write an ONNX file with one recurrent operator."""
    from onnx import TensorProto, helper, numpy_helper, save

    random, width = np.random.default_rng(0), GATES[kind] * hidden
    shapes = {"W": (1, width, features), "R": (1, width, hidden), "B": (1, 2 * width)}
    weights = [
        numpy_helper.from_array((random.normal(size=shape) * 0.1).astype("float32"), name)
        for name, shape in shapes.items()
    ]
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["X", *shapes], ["Y"], hidden_size=hidden, **options)
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, (steps, members, features))
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "recurrence", [x], [y], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
    return path
