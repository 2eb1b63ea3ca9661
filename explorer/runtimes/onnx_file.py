"""ONNX files as runtimes need them: the message without weights, and the nodes of its graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, load

from explorer.runtimes.contract import FileNode

_SMALL = 1024
"""maximum size in bytes of weights that are compared"""


def loaded(path: str) -> ModelProto:
    """Return the message of a file, without weights in other files, in which each node has a unique name."""
    model = load(path, load_external_data=False)
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{index}"
        while name in taken:
            name = f"{name}_{index}"
        taken.add(name)
        node.name = name
    return model


def nodes_of(model: ModelProto) -> list[FileNode]:
    """Return the nodes of a graph."""
    return [
        FileNode(node.op_type, tuple(read_names(node)), tuple(node.output), node.name, _attributes(node))
        for node in model.graph.node
    ]


def _attributes(node: NodeProto) -> bytes:
    """Return a node's domain and attributes; the name of a constant tensor does not matter."""
    tensors = [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    plain = [attribute.SerializeToString() for attribute in node.attribute if not attribute.HasField("t")]
    return b"|".join([node.domain.encode(), *sorted(plain), *map(_content, tensors)])


def _content(tensor: TensorProto) -> bytes:
    nameless = TensorProto()
    nameless.CopyFrom(tensor)
    nameless.name = ""
    return bytes(nameless.SerializeToString())


def equal_weights(model: ModelProto) -> dict[str, str]:
    """Return the name of each small initializer → the first initializer with the same content."""
    first: dict[bytes, str] = {}
    small = [t for t in model.graph.initializer if t.ByteSize() <= _SMALL and t.data_location != TensorProto.EXTERNAL]
    return {tensor.name: first.setdefault(_content(tensor), tensor.name) for tensor in small}


def weights_of(model: ModelProto) -> set[str]:
    """Return the names of the initializers."""
    graph = model.graph
    return {*(tensor.name for tensor in graph.initializer), *(each.values.name for each in graph.sparse_initializer)}


def read_names(node: NodeProto) -> list[str]:
    """Return the operands of a node, including the values that its inner graphs read."""
    names = [*node.input]
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            inner = {*(each.name for each in (*graph.input, *graph.initializer))}
            for each in graph.node:
                names += [name for name in read_names(each) if name not in inner]
                inner.update(each.output)
            names += [each.name for each in graph.output if each.name not in inner]
    return names


def with_outputs(model: ModelProto, names: list[str]) -> ModelProto:
    """Return a copy of a model that also returns the operands ``names``."""
    copy = ModelProto()
    copy.CopyFrom(model)
    known = {value.name for value in copy.graph.output}
    copy.graph.output.extend([ValueInfoProto(name=name) for name in names if name not in known])
    return copy


def external_folder(path: str) -> str:
    """Return the folder of the files with a model's weights."""
    return str(Path(path).resolve().parent)


def as_result(value: Any) -> Any:
    """Return a runtime's result: an array, a tuple of arrays for a sequence, or None for anything else."""
    if isinstance(value, (list, tuple)):
        return tuple([as_result(item) for item in value])
    if not hasattr(value, "dtype"):
        return None
    array = np.asarray(value)
    return array.astype(np.str_) if array.dtype.kind == "O" else array
