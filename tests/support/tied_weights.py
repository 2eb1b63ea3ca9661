"""An ONNX file whose blocks share a weight and a bias, as torch.onnx.export writes tied weights."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer as ex
from explorer.record import Recording

PARAMETERS = 8 * 8 + 8
"""number of elements that the file stores, all of which each block reads"""
BLOCKS = ("block.0", "block.1", "block.2")


def tied_weights() -> Recording:
    """Return the recording of three blocks: the second reads the weight itself, the others through an Identity.

    Each block also adds the bias twice, so it has two leaves of the same tensor.
    """
    nodes, x = [], "x"
    for index, block in enumerate(BLOCKS):
        weight, product, once, twice = "shared", f"/{block}/product", f"/{block}/once", f"/{block}/twice"
        if index != 1:
            weight = f"alias_{index}"
            nodes.append(helper.make_node("Identity", ["shared"], [weight]))
        nodes.append(helper.make_node("MatMul", [x, weight], [product], f"/{block}/MatMul"))
        nodes.append(helper.make_node("Add", [product, "bias"], [once], f"/{block}/Add"))
        nodes.append(helper.make_node("Add", [once, "bias"], [twice], f"/{block}/Add_1"))
        x = twice
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("x", x)]
    arrays = {"shared": np.ones((8, 8), np.float32), "bias": np.ones(8, np.float32)}
    stored = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "tied", ends[:1], ends[1:], stored)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tied.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return ex.open(path).preview_plan().recording
