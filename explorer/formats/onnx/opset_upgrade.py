"""Upgrade of models whose opset is older than the ones that are read, by the onnx package's own converter.

The standard changed what some operators mean: an attribute became an input, broadcasting became NumPy's. Its converter
rewrites a graph, and those inside it, from opset to opset; here it is asked only where a model has an operator that is
not read as it stands.
The elements of large weights do not pass through it: they are taken out before and put back after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, version_converter

from explorer.formats.common.onnx_words import FLATTENS, NEAREST_BY_SCALE, SLOPES_OF_CHANNELS
from explorer.formats.onnx.operators.base.formal_names import domain_of
from explorer.formats.onnx.operators.base.opsets import OLDEST
from explorer.formats.onnx.signatures import type_of

TARGET = 13
"""opset that older models are upgraded to: the newest change of the meaning of common operators"""
_SMALL = 1024
"""most bytes of a tensor that the converter sees; it reads sizes and axes, and no weights"""


class Upgrade(NamedTuple):
    """A model that is read, and a sentence about its upgrade, "" where none was needed."""

    model: ModelProto
    remark: str


def upgraded_model(model: ModelProto) -> Upgrade:
    """Return a model of an older opset as one of opset 13, if an operator needs it and the converter is able to."""
    opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    own = opsets.get("", OLDEST)
    if not 0 < own < OLDEST or all(
        domain_of(node.domain) or type_of("", node.op_type, opsets) == node.op_type
        for graph in graphs_of(model.graph)
        for node in graph.node
    ):
        return Upgrade(model, "")
    light, weights = _without_elements(model)
    note_old_meanings(light.graph, own)
    try:
        converted = version_converter.convert_version(light, TARGET)
    # The converter is native code: it raises whatever its parts raise, and the model is shown as it stands then.
    except Exception as error:
        return Upgrade(model, f"opset {own} could not be upgraded: {_reason(error)}")
    note_upsampled(converted.graph, own)
    for tensor in converted.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(weights[tensor.name])
    return Upgrade(converted, f"upgraded from opset {own} to {TARGET}; numbers of nodes are those after it")


def _reason(error: Exception) -> str:
    """Return the first line of an error, without the place in the converter's source."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition("failed: ")[2]


def _without_elements(model: ModelProto) -> tuple[ModelProto, dict[str, TensorProto]]:
    """Return a copy of a model whose large weights have no elements, and those weights by name."""
    light = ModelProto()
    weights = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        # of elements that were left in the file the message has a mark alone
        if tensor.ByteSize() > _SMALL or math.prod(tensor.dims) > _SMALL
    }
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in weights]
    # Copied field by field: a copy of everything would hold the weights twice.
    for field, value in model.ListFields():
        if field.name == "graph":
            continue
        if field.is_repeated:
            getattr(light, field.name).extend(value)
        else:
            setattr(light, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name == "initializer":
            continue
        if field.is_repeated:
            getattr(light.graph, field.name).extend(value)
        else:
            setattr(light.graph, field.name, value)
    light.graph.initializer.extend(kept)
    for tensor in weights.values():
        light.graph.initializer.append(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims))
    return light, weights


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
