"""Small ONNX files for tests, written with the onnx package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import explorer as ex
from explorer.net import Net

FLOAT, INT32, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 20,
    **options: Any,
) -> ModelProto:
    """Return a model; ``inputs`` maps names to (element type, shape), ``constants`` are its initializers."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, *type_) for name, type_ in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **options)


def opened(made: ModelProto, folder: Path, name: str = "m.onnx") -> Net:
    """Write a model to a folder and return its net."""
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return ex.open(path)


def result(folder: Path, made: NodeProto, *arrays: np.ndarray, opset: int = 20, known: bool = True) -> Any:
    """Return the result of a model of one node for its first input; the others are initializers if they are
    ``known``."""
    names = [name for name in made.input if name]
    kinds = {
        name: (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, arrays, strict=True)
    }
    given = dict(zip(names, arrays, strict=True))
    fixed = {name: given.pop(name) for name in names[1:]} if known else {}
    net = opened(model([made], {name: kinds[name] for name in given}, list(made.output), fixed, opset=opset), folder)
    assert net.check() == []
    return net.run(given)
