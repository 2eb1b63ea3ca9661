"""Attributes of a node as plain arguments; tensors among them are stored ones, graphs are named."""

from __future__ import annotations

from pathlib import Path

from onnx import AttributeProto, NodeProto

from explorer.formats.onnx.stored_tensors import StoredTensor, stored
from explorer.net.definition.definition import Plain


def arguments(node: NodeProto, name: str, path: Path) -> tuple[dict[str, Plain], dict[str, StoredTensor]]:
    """The plain attributes of a node by name, and its tensors, which are named ``operator.attribute``.

    What has no plain value, a graph or a type, is written as a text that says what it is.
    """
    plain: dict[str, Plain] = {}
    tensors: dict[str, StoredTensor] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            tensors[attribute.name] = stored(attribute.t, f"{name}.{attribute.name}", path)
        else:
            plain[attribute.name] = _plain(attribute)
    return plain, tensors


def _plain(attribute: AttributeProto) -> Plain:
    kind = AttributeProto
    match attribute.type:
        case kind.INT:
            return attribute.i
        case kind.FLOAT:
            return attribute.f
        case kind.STRING:
            return text(attribute.s)
        case kind.INTS:
            return tuple(attribute.ints)
        case kind.FLOATS:
            return tuple(attribute.floats)
        case kind.STRINGS:
            return tuple(text(item) for item in attribute.strings)
        case kind.GRAPH:
            return f"a graph of {len(attribute.g.node)} nodes"
        case kind.GRAPHS:
            return tuple(f"a graph of {len(graph.node)} nodes" for graph in attribute.graphs)
        case kind.TENSORS:
            return f"{len(attribute.tensors)} tensors"
        case kind.SPARSE_TENSOR | kind.SPARSE_TENSORS:
            return "a sparse tensor"
        case kind.TYPE_PROTO | kind.TYPE_PROTOS:
            return "a type"
    return f"an attribute of kind {attribute.type}"


def text(data: bytes) -> str:
    """Bytes of a file as text; what is no UTF-8 is replaced."""
    return data.decode("utf-8", "replace")
