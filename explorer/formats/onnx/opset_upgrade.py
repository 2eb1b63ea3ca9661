"""Upgrade of models whose opset is older than the ones that are read, by the onnx package's own converter.

The standard changed what some operators mean: an attribute became an input, broadcasting became NumPy's. Its converter
rewrites a graph, and those inside it, from opset to opset; here it is asked only where a model has an operator that is
not read as it stands.
The elements of large weights do not pass through it: they are taken out before and put back after.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from onnx import ModelProto, TensorProto, version_converter

from explorer.formats.onnx.old_meanings import graphs_of, note_old_meanings, note_upsampled
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
