"""Names of operators and their boxes, derived from the module paths that exporters leave in a file.

An ONNX graph is flat: it has no modules, and its nodes need no names. Module paths come from three sources, the most
reliable first: node metadata written by torch.onnx (``SCOPES``), slash-separated node names written by older exporters,
and the parameter names of weights.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from explorer.formats.common.onnx_names import SCOPES
from explorer.formats.common.unique_names import UniqueNames
from explorer.formats.onnx.function_inlining import ExpandedNode
from explorer.net.definition.definition import OperatorDefinition

_GENERATED = re.compile(r"node_.*|n?[0-9]+|val_[0-9]+|[A-Za-z]+_[0-9]+|(?:\w+\.)*(?P<type>[A-Za-z]+)\.[0-9]+|")
"""generated names without information: names by torch's exporter, and types followed by a number

A name with a dot, such as ``Add.1`` or ``p2o.Add.1`` by paddle2onnx, is generated only if it contains the node's type.
"""
_SCOPES_LENGTH = 4096
"""maximum length of a list of scopes, because ``ast.literal_eval`` is slow for hostile input"""
_ROOTS = ("", "torch_nn", "main_graph", "torch-jit-export")
"""names that exporters give to the whole graph; they are not boxes"""
_SPLITTING = frozenset({"Cast", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
"""operator types that split or reshape a weight within its module"""

_QUANTIZING = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""operator types that quantizers insert around the operators of a model"""


class Names:
    """Generator of unique operator names: the name of the node, or its type and number if it is unnamed."""

    def __init__(self) -> None:
        self._names = UniqueNames()
        self._paths: set[tuple[str, ...]] = set()

    def name(self, placed: ExpandedNode, number: int) -> str:
        """Return a unique operator name; a number is appended to a name that is already in use."""
        proposal = "/".join((*placed.calls, placed.node.name or f"{placed.node.op_type}_{number}"))
        return self._names.take(proposal)

    def boxes(self, placed: ExpandedNode, name: str, weights: Iterable[str]) -> tuple[str, ...] | None:
        """Return an operator's boxes, from torch's metadata, its path, or the names of its ``weights``.

        Return () if the name is generated and no source gives boxes, and None if the boxes follow from the name.
        """
        boxes = _boxes(placed, name, list(weights))
        path = (*(boxes or ()), name.rpartition("/")[2])
        if path in self._paths:
            return None
        self._paths.add(path)
        return boxes


def naming_weights(nodes: Sequence[ExpandedNode], names: Mapping[str, str]) -> frozenset[str]:
    """Return the weights whose names determine the boxes of the operators that read them.

    ``names`` maps blobs to weight names. A weight is returned if it has a single reader, or if its readers only split
    or reshape it, as for the LSTM gates that torch exports. Any other weight with several readers may be shared by
    modules, for example the embedding of a language model.
    """
    readers: dict[str, list[str]] = {}
    for placed in nodes:
        for blob in placed.node.input:
            if blob in names:
                readers.setdefault(names[blob], []).append(placed.node.op_type)
    return frozenset(name for name, types in readers.items() if len(types) == 1 or _SPLITTING.issuperset(types))


def with_bias_boxes(operators: list[OperatorDefinition]) -> list[OperatorDefinition]:
    """Return the operators, with each product moved into the box of its bias if nothing else reads the product.

    torch exports a linear layer as a product and the addition of a bias, and only the bias keeps its parameter name.
    """
    products = {
        operator.outputs[0]: index
        for index, operator in enumerate(operators)
        if operator.boxes == () and operator.type == "MatMul" and operator.weights and len(operator.outputs) == 1
    }
    if not products:
        return operators
    readers: dict[str, list[OperatorDefinition]] = {}
    for operator in operators:
        for blob in operator.inputs:
            if blob in products:
                readers.setdefault(blob, []).append(operator)
    matches = [*operators]
    for blob, index in products.items():
        following = readers.get(blob, [])
        if len(following) == 1 and (bias := following[0]).type == "Add" and bias.weights and bias.boxes:
            matches[index] = replace(operators[index], boxes=bias.boxes)
    return matches


def with_quantization_boxes(operators: list[OperatorDefinition]) -> list[OperatorDefinition]:
    """Return the operators, with each pair that quantizes and dequantizes a value moved into the box of its producer.

    Quantizers insert these operators without module paths; between two layers, they would split every module that
    contains both. A dequantized weight is moved into the box of its reader if it has only one.
    """
    readers: dict[str, list[OperatorDefinition]] = {}
    for operator in operators:
        for blob in operator.inputs:
            readers.setdefault(blob, []).append(operator)
    boxes: dict[str, tuple[str, ...] | None] = {}
    result: list[OperatorDefinition] = []
    for operator in operators:
        # A path in the name places an operator already.
        if operator.type in _QUANTIZING and "/" not in operator.name:
            near = [boxes.get(blob) for blob in operator.inputs[:1]]
            near = near or [reader.boxes for blob in operator.outputs for reader in readers.get(blob, [])]
            if len(near) == 1 and near[0] is not None:
                operator = replace(operator, boxes=near[0])
        boxes.update(dict.fromkeys(operator.outputs, operator.boxes))
        result.append(operator)
    return result


def _boxes(placed: ExpandedNode, name: str, weights: list[str]) -> tuple[str, ...] | None:
    metadata = placed.node.metadata_props
    scopes = next((entry.value for entry in metadata if entry.key == SCOPES), "") if metadata else ""
    if scopes and (modules := _scope_modules(scopes)) is not None:
        return (*placed.calls, *modules)
    if "/" in name:
        return _path_boxes(name.split("/")[:-1])
    owners = {owner for weight in weights if (owner := _module(weight))}
    if len(owners) == 1:
        return tuple(part for part in owners.pop().split(".") if part)
    generated = _GENERATED.fullmatch(placed.node.name)
    return () if generated and generated["type"] in (None, placed.node.op_type) else None


def _module(weight: str) -> str:
    """Return the path of the module that has a weight, "" if the name of the weight is no path of a parameter.

    A name that ends with a number, such as ``helper.constant.3``, was generated.
    """
    module, _, parameter = weight.rpartition(".")
    return "" if parameter.isdecimal() else module


def _scope_modules(scopes: str) -> tuple[str, ...] | None:
    """Return the module path in torch's list of scopes, whose last entry is the node's own name."""
    if len(scopes) > _SCOPES_LENGTH:
        return None
    try:
        entries = ast.literal_eval(scopes)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # not a literal, or nested too deeply
        return None
    if not isinstance(entries, list) or len(entries) < 2 or not all(isinstance(entry, str) for entry in entries):
        return None
    return tuple(part for part in entries[-2].split(".") if part)


def _path_boxes(parts: list[str]) -> tuple[str, ...]:
    """Return the boxes of a path without repetitions: ``/layer1/layer1.0/conv1`` gives layer1, 0, conv1."""
    boxes: list[str] = []
    outer = ""
    for part in parts:
        if part in _ROOTS:
            continue
        inner = part.removeprefix(f"{outer}.") if outer else part
        boxes += [word for word in inner.split(".") if word]
        outer = part
    return tuple(boxes)
