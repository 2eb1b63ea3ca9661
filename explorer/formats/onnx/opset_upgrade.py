"""Upgrade of models from old opsets, using the onnx package's converter.

In old opsets, some operators have another meaning; for example, broadcasting differs from NumPy's. The converter runs
only if a model has an operator that cannot be read unchanged. The elements of large weights are removed before the
conversion and restored afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, version_converter

from explorer.formats.common.onnx_names import FLATTENS, NEAREST_BY_SCALE, SLOPES_OF_CHANNELS
from explorer.formats.onnx.operators.base.formal_names import domain_of
from explorer.formats.onnx.operators.base.opsets import OLDEST
from explorer.formats.onnx.signatures import type_of

TARGET = 13
"""target opset for older models: the last opset that changed the meaning of common operators"""
_SMALL = 1024
"""maximum size in bytes of a tensor passed to the converter, which reads lengths and axes but no weights"""


class Upgrade(NamedTuple):
    """A model to read, a remark about its upgrade ("" if no upgrade was needed), and the opset of an upgraded file."""

    model: ModelProto
    remark: str
    upgraded_from: int = 0


def upgraded_model(model: ModelProto) -> Upgrade:
    """Upgrade a model to opset 13 if its opset is older and an operator needs it; else return it unchanged."""
    opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    own = opsets.get("", OLDEST)
    if not 0 < own < OLDEST or all(
        domain_of(node.domain) or type_of("", node.op_type, opsets) == node.op_type
        for graph in graphs_of(model.graph)
        for node in graph.node
    ):
        return Upgrade(model, "")
    stripped, weights = _without_elements(model)
    preserve_old_meanings(stripped.graph, own)
    try:
        converted = version_converter.convert_version(stripped, TARGET)
    # The converter is native code that may raise any exception; the model is then shown unchanged.
    except Exception as error:
        return Upgrade(model, f"opset {own} could not be upgraded: {_reason(error)}")
    mark_upsampled(converted.graph, own)
    for tensor in converted.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(weights[tensor.name])
    _restore_metadata(converted.graph, model.graph)
    remark = f"upgraded from opset {own} to {TARGET}; node numbers refer to the upgraded graph"
    return Upgrade(converted, remark, own)


def _restore_metadata(converted: GraphProto, original: GraphProto) -> None:
    """Copy metadata, which the converter omits, to the graph, its values, and the nodes that still compute a value."""
    converted.metadata_props.extend(original.metadata_props)
    values = {value.name: value.metadata_props for value in (*original.input, *original.output, *original.value_info)}
    for value in (*converted.input, *converted.output, *converted.value_info):
        if not value.metadata_props:
            value.metadata_props.extend(values.get(value.name, ()))
    nodes = {node.output[0]: node.metadata_props for node in original.node if node.output}
    for node in converted.node:
        if node.output and not node.metadata_props:
            node.metadata_props.extend(nodes.get(node.output[0], ()))


def _reason(error: Exception) -> str:
    """Return the first line of an error, without the position in the converter's source code."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition("failed: ")[2]


def _without_elements(model: ModelProto) -> tuple[ModelProto, dict[str, TensorProto]]:
    """Return a copy of a model without the elements of large weights, and a dict of these weights."""
    stripped = ModelProto()
    weights = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        # the message contains only placeholders for elements that were left in the file
        if tensor.ByteSize() > _SMALL or math.prod(tensor.dims) > _SMALL
    }
    small_tensors = [tensor for tensor in model.graph.initializer if tensor.name not in weights]
    # Copy field by field, because copying the whole model would duplicate the weights.
    for field, value in model.ListFields():
        if field.name == "graph":
            continue
        if field.is_repeated:
            getattr(stripped, field.name).extend(value)
        else:
            setattr(stripped, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name == "initializer":
            continue
        if field.is_repeated:
            getattr(stripped.graph, field.name).extend(value)
        else:
            setattr(stripped.graph, field.name, value)
    stripped.graph.initializer.extend(small_tensors)
    for tensor in weights.values():
        stripped.graph.initializer.append(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims))
    return stripped, weights


_SLOPES_BROADCAST = 7
"""first opset in which PRelu's slopes broadcast to the last axes"""
_RESIZE = 10
"""first opset with Resize, which replaced Upsample"""


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and all of its inner graphs (branches and bodies), outer graphs first."""
    remaining = [graph]
    while remaining:
        current = remaining.pop()
        yield current
        attributes = [attribute for node in current.node for attribute in node.attribute]
        remaining += [inner for each in attributes for inner in (each.g, *each.graphs) if inner.ByteSize()]


def preserve_old_meanings(graph: GraphProto, opset: int) -> None:
    """Mark, with attributes, the nodes of opsets below 11 whose meaning the converter would change."""
    for each in graphs_of(graph):
        for node in each.node:
            preserve = _PRESERVE.get(node.op_type)
            if preserve is not None and not node.domain:
                preserve(node, each, opset)


def mark_upsampled(graph: GraphProto, opset: int) -> None:
    """Add the attributes of Upsample's coordinate rule to the Resize nodes that replaced it.

    Upsample divides the position of a new element by the scale. Resize replaced Upsample in opset 10, so in older
    models every Resize is a former Upsample.
    """
    if opset < _RESIZE:
        for node in [node for each in graphs_of(graph) for node in each.node]:
            if node.op_type == "Resize" and not node.domain:
                _add_resize_attributes(node, "floor")


def _prelu(node: NodeProto, graph: GraphProto, opset: int) -> None:
    """Mark that a PRelu node applies its slopes to channels."""
    if opset < _SLOPES_BROADCAST:
        node.attribute.append(helper.make_attribute(SLOPES_OF_CHANNELS, 1))


def _hardmax(node: NodeProto, graph: GraphProto, opset: int) -> None:
    """Mark that a Hardmax flattens the axes from ``axis`` on; the converter handles only Softmax and LogSoftmax."""
    node.attribute.append(helper.make_attribute(FLATTENS, 1))


def _resize(node: NodeProto, graph: GraphProto, opset: int) -> None:
    """Add attributes to a Resize node for opset 10's coordinate rule.

    A new element reads position / scale, rounded up on an axis that shrinks and down otherwise.
    """
    scales = _scales(node, graph)
    if scales is not None and (scales >= 1).all():
        _add_resize_attributes(node, "floor")
    elif scales is not None and (scales <= 1).all():
        _add_resize_attributes(node, "ceil")
    else:
        _add_resize_attributes(node, "floor")
        if _is_nearest(node):
            node.attribute.append(helper.make_attribute(NEAREST_BY_SCALE, 1))


def _add_resize_attributes(node: NodeProto, rounding: str) -> None:
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if _is_nearest(node):
        node.attribute.append(helper.make_attribute("nearest_mode", rounding))


def _is_nearest(node: NodeProto) -> bool:
    return all(attribute.s == b"nearest" for attribute in node.attribute if attribute.name == "mode")


def _scales(node: NodeProto, graph: GraphProto) -> np.ndarray | None:
    """Return the scales stored in an initializer or a Constant; None if the net computes them."""
    name = node.input[1] if len(node.input) > 1 else ""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    constants = [other for other in graph.node if other.op_type == "Constant"]
    stored |= {each.output[0]: part.t for each in constants for part in each.attribute if part.name == "value"}
    return numpy_helper.to_array(stored[name]) if name in stored else None


_PRESERVE: dict[str, Callable[[NodeProto, GraphProto, int], None]] = {
    "PRelu": _prelu,
    "Hardmax": _hardmax,
    "Resize": _resize,
}
