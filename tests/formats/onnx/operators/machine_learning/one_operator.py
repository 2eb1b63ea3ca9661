"""Nets of one ai.onnx.ml operator, and rows to run them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from explorer.net import Net
from tests.formats.onnx.models import FLOAT, opened

X = np.array([[1, 2], [3, 4], [-1, 0.5]], np.float32)


def net_of(
    folder: Path, type: str, outputs: tuple[str, ...] = ("y",), *, checked: bool = True, **arguments: Any
) -> Net:
    node = helper.make_node(type, ["x"], list(outputs), domain="ai.onnx.ml", **arguments)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, X.shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    net = opened(helper.make_model(graph, opset_imports=opsets), folder)
    assert net.check() == [] or not checked
    return net
