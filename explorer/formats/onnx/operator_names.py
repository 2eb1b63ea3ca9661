"""Names of operators and the boxes that they stand in, from what exporters write.

ONNX has no modules: a graph is flat, and its nodes need no names. Exporters leave traces of the modules in three
places, best first: torch.onnx notes the path of modules as metadata of a node (``SCOPES``), older exporters write it
into the node's name, with slashes, and weights keep the names of the modules' parameters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from explorer.formats.common.onnx_words import SCOPES
from explorer.formats.common.unique_names import UniqueNames
from explorer.formats.onnx.function_inlining import PlacedNode
from explorer.net.definition.definition import OperatorDefinition

_MADE_UP = re.compile(r"node_.*|n?[0-9]+|val_[0-9]+|[A-Za-z]+_[0-9]+|")
"""names that say nothing: those of torch's exporter by export, and types with a number"""
_LONGEST = 4096
"""characters of a list of scopes that is read: ``ast.literal_eval`` takes long for a hostile one"""
_ROOTS = ("", "torch_nn", "main_graph", "torch-jit-export")
"""names that exporters give the whole graph, which is no box in it"""
_PARTING = frozenset({"Cast", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
"""types that take a weight apart, or give it another form, for the module that it belongs to"""


class Names:
    """Gives every operator a name of its own: the node's, or one made of its type and number."""

    def __init__(self) -> None:
        self._names = UniqueNames()
        self._paths: set[tuple[str, ...]] = set()

    def name(self, placed: PlacedNode, number: int) -> str:
        """Return the operator's name; a name that is taken gets the first free number behind it."""
        proposal = "/".join((*placed.calls, placed.node.name or f"{placed.node.op_type}_{number}"))
        return self._names.take(proposal)

    def boxes(self, placed: PlacedNode, name: str, weights: Iterable[str]) -> tuple[str, ...] | None:
        """Return the boxes of an operator: by its path, torch's notes, or the names of its own ``weights``.

        () if its name was made up and none of these tells; None if the name itself tells them.
        """
        boxes = _boxes(placed, name, list(weights))
        path = (*(boxes or ()), name.rpartition("/")[2])
        if path in self._paths:
            return None
        self._paths.add(path)
        return boxes


def telling_weights(nodes: Sequence[PlacedNode], names: Mapping[str, str]) -> frozenset[str]:
    """Return the weights whose names tell the boxes of their readers; ``names`` are those of weights by blob.

    Those of one reader, and those that are only taken apart, as torch's exporter does with the gates of an LSTM. What
    else is read twice may be shared by modules, as a language model's embedding is by its last layer.
    """
    readers: dict[str, list[str]] = {}
    for placed in nodes:
        for blob in placed.node.input:
            if blob in names:
                readers.setdefault(names[blob], []).append(placed.node.op_type)
    return frozenset(name for name, types in readers.items() if len(types) == 1 or _PARTING.issuperset(types))


def beside_bias(operators: list[OperatorDefinition]) -> list[OperatorDefinition]:
    """Return the operators, with a product moved into the boxes of the bias that is its only reader.

    torch's exporter writes a linear map as two nodes, of which the bias alone keeps its name.
    """
    products = {
        operator.outputs[0]: place
        for place, operator in enumerate(operators)
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
    for blob, place in products.items():
        following = readers.get(blob, [])
        if len(following) == 1 and (bias := following[0]).type == "Add" and bias.weights and bias.boxes:
            matches[place] = replace(operators[place], boxes=bias.boxes)
    return matches


def _boxes(placed: PlacedNode, name: str, weights: list[str]) -> tuple[str, ...] | None:
    notes = placed.node.metadata_props
    scopes = next((entry.value for entry in notes if entry.key == SCOPES), "") if notes else ""
    if scopes and (modules := _scope_modules(scopes)) is not None:
        return (*placed.calls, *modules)
    if "/" in name:
        return _merged(name.split("/")[:-1])
    owners = {weight.rpartition(".")[0] for weight in weights if "." in weight}
    if len(owners) == 1:
        return tuple(part for part in owners.pop().split(".") if part)
    return () if _MADE_UP.fullmatch(placed.node.name) else None


def _scope_modules(scopes: str) -> tuple[str, ...] | None:
    """Return the module in torch's list of scopes, whose last entry is the node's own name."""
    if len(scopes) > _LONGEST:
        return None
    try:
        entries = ast.literal_eval(scopes)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # no literal, or one that is nested too deeply
        return None
    if not isinstance(entries, list) or len(entries) < 2 or not all(isinstance(entry, str) for entry in entries):
        return None
    return tuple(part for part in entries[-2].split(".") if part)


def _merged(parts: list[str]) -> tuple[str, ...]:
    """Boxes of a path: ``/layer1/layer1.0/conv1`` says layer1 twice, and its dots are boxes too."""
    words: list[str] = []
    outer = ""
    for part in parts:
        if part in _ROOTS:
            continue
        inner = part.removeprefix(f"{outer}.") if outer else part
        words += [word for word in inner.split(".") if word]
        outer = part
    return tuple(words)
