"""Meanings of operators of old opsets, where the onnx package's converter changes the opset and not the words.

Such a node gets, before it is converted or after, the attributes that say the same in the newer opset, or an attribute
of explorer's own where the newer opset has no words for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from explorer.formats.common.onnx_words import FLATTENS, NEAREST_BY_SCALE, SLOPES_OF_CHANNELS

_SLOPES_BROADCAST = 7
"""opset from which PRelu's slopes are aligned at the last axes"""
_RESIZE = 10
"""opset from which Resize is there, in Upsample's place"""


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Give a graph and the graphs inside it, branches and bodies, each before its inner ones."""
    remaining = [graph]
    while remaining:
        current = remaining.pop()
        yield current
        attributes = [attribute for node in current.node for attribute in node.attribute]
        remaining += [inner for each in attributes for inner in (each.g, *each.graphs) if inner.ByteSize()]


def note_old_meanings(graph: GraphProto, opset: int) -> None:
    """Add attributes to the nodes of a graph of an opset below 11 whose meaning the converter would change."""
    for each in graphs_of(graph):
        for node in each.node:
            note = _NOTES.get(node.op_type)
            if note is not None and not node.domain:
                note(node, each, opset)


def note_upsampled(graph: GraphProto, opset: int) -> None:
    """Add attributes to the nodes by which the converter replaced Upsample, each without its own.

    Each new element lay at its place divided by the scale. No other node is a Resize there: it came with opset 10, and
    Upsample went with it. The converter renames what such a node computes.
    """
    if opset < _RESIZE:
        for node in [node for each in graphs_of(graph) for node in each.node]:
            if node.op_type == "Resize" and not node.domain:
                _resampled(node, "floor")


def _prelu(node: NodeProto, graph: GraphProto, opset: int) -> None:
    """Slopes lay along the channels."""
    if opset < _SLOPES_BROADCAST:
        node.attribute.append(helper.make_attribute(SLOPES_OF_CHANNELS, 1))


def _hardmax(node: NodeProto, graph: GraphProto, opset: int) -> None:
    """The axes from one on were a single one; the converter changes Softmax and LogSoftmax alone."""
    node.attribute.append(helper.make_attribute(FLATTENS, 1))


def _resize(node: NodeProto, graph: GraphProto, opset: int) -> None:
    """A new element lay at its place divided by the scale, and was the element below, of an axis that shrinks above."""
    scales = _scales(node, graph)
    if scales is not None and (scales >= 1).all():
        _resampled(node, "floor")
    elif scales is not None and (scales <= 1).all():
        _resampled(node, "ceil")
    else:
        _resampled(node, "floor")
        if _is_nearest(node):
            node.attribute.append(helper.make_attribute(NEAREST_BY_SCALE, 1))


def _resampled(node: NodeProto, rounding: str) -> None:
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if _is_nearest(node):
        node.attribute.append(helper.make_attribute("nearest_mode", rounding))


def _is_nearest(node: NodeProto) -> bool:
    return all(attribute.s == b"nearest" for attribute in node.attribute if attribute.name == "mode")


def _scales(node: NodeProto, graph: GraphProto) -> np.ndarray | None:
    """Return the scales that an initializer or a Constant holds; None if the net computes them."""
    name = node.input[1] if len(node.input) > 1 else ""
    held = {tensor.name: tensor for tensor in graph.initializer}
    constants = [other for other in graph.node if other.op_type == "Constant"]
    held |= {each.output[0]: part.t for each in constants for part in each.attribute if part.name == "value"}
    return numpy_helper.to_array(held[name]) if name in held else None


_NOTES: dict[str, Callable[[NodeProto, GraphProto, int], None]] = {
    "PRelu": _prelu,
    "Hardmax": _hardmax,
    "Resize": _resize,
}
