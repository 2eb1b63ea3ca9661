"""Attributes of nodes: plain values, tensors, and the tensor of a Constant node.

Arguments are plain, so that a definition can be written in any format. Graphs among attributes are no arguments: the
reader makes definitions of them, and here they are a few words for whoever looks at the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import AttributeProto, NodeProto

from explorer.formats.onnx.large_elements import Elements
from explorer.formats.onnx.stored_tensors import StoredTensor, sparse, stored, texts
from explorer.net.definition.definition import Plain
from explorer.record.reasons import counted_text


def arguments(
    node: NodeProto, name: str, path: Path, elements: Mapping[bytes, Elements]
) -> tuple[dict[str, Plain], dict[str, StoredTensor]]:
    """Return the plain attributes of a node by name, and its tensors, which are named ``operator.attribute``.

    An attribute without a plain value, a graph or a type, becomes a text that describes it.
    """
    plain: dict[str, Plain] = {}
    tensors: dict[str, StoredTensor] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            tensors[attribute.name] = stored(attribute.t, f"{name}.{attribute.name}", path, elements)
        else:
            plain[attribute.name] = _plain(attribute)
    return plain, tensors


def _plain(attribute: AttributeProto) -> Plain:
    types = AttributeProto
    match attribute.type:
        case types.INT:
            return attribute.i
        case types.FLOAT:
            return attribute.f
        case types.STRING:
            return text(attribute.s)
        case types.INTS:
            return tuple(attribute.ints)
        case types.FLOATS:
            return tuple(attribute.floats)
        case types.STRINGS:
            return tuple(text(item) for item in attribute.strings)
        case types.GRAPH:
            return f"a graph of {counted_text(len(attribute.g.node), 'node')}"
        case types.GRAPHS:
            return tuple(f"a graph of {counted_text(len(graph.node), 'node')}" for graph in attribute.graphs)
        case types.TENSORS:
            return counted_text(len(attribute.tensors), "tensor")
        case types.SPARSE_TENSOR | types.SPARSE_TENSORS:
            return "a sparse tensor"
        case types.TYPE_PROTO | types.TYPE_PROTOS:
            return "a type"
    return f"an attribute of kind {attribute.type}"


def text(data: bytes) -> str:
    """Return bytes of a file as text; anything that is no UTF-8 is replaced."""
    return data.decode("utf-8", "replace")


def constant(node: NodeProto, path: Path, elements: Mapping[bytes, Elements]) -> StoredTensor | None:
    """Return the tensor of a Constant node; None if it has none."""
    name = node.output[0]
    for attribute in node.attribute:
        match attribute.name:
            case "value":
                return stored(attribute.t, name, path, elements)
            case "sparse_value":
                return sparse(attribute.sparse_tensor, name, path, elements)
            case "value_int" | "value_ints":
                whole = np.array(attribute.i if attribute.name == "value_int" else attribute.ints, np.int64)
                return StoredTensor(name, whole.shape, "int64", whole)
            case "value_float" | "value_floats":
                real = np.array(attribute.f if attribute.name == "value_float" else attribute.floats, np.float32)
                return StoredTensor(name, real.shape, "float32", real)
            case "value_string":
                return texts(name, [attribute.s], (), path)
            case "value_strings":
                return texts(name, attribute.strings, (len(attribute.strings),), path)
    return None
