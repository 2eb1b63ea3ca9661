"""Functions: calls of a model's own, and of the standard's, are expanded, each in a box of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from explorer.core.errors import FileError

STANDARD = ("", "ai.onnx")
MOST = 1_000_000
"""operators that a file may expand to"""


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node of the expanded graph: the calls that it stands in, outermost first, and the opsets that it means."""

    node: NodeProto
    calls: tuple[str, ...]
    opsets: Mapping[str, int]


def domain_of(domain: str) -> str:
    """The domain by one name: "" for ONNX's own."""
    return "" if domain in STANDARD else domain


def expanded(
    model: ModelProto, path: Path, standard: Callable[[NodeProto, Mapping[str, int]], FunctionProto | None]
) -> Iterator[PlacedNode]:
    """The nodes of a model in their order, with the bodies of functions for their calls.

    ``standard`` gives the body of an operator that is a function too, though not of the model. Raises FileError for a
    function that calls itself, and for a file that expands to too many operators.
    """
    functions = {_key(function): function for function in model.functions}
    opsets = _opsets(model)
    made = 0
    waiting: list[tuple[Iterator[NodeProto], tuple[str, ...], tuple[FunctionProto, ...], Mapping[str, int]]]
    waiting = [(iter(model.graph.node), (), (), opsets)]
    while waiting:
        nodes, calls, active, known = waiting[-1]
        node = next(nodes, None)
        if node is None:
            waiting.pop()
            continue
        function = functions.get((domain_of(node.domain), node.op_type, node.overload))
        function = function or standard(node, known)
        made += 1
        if made > MOST:
            raise FileError(
                f"the graph expands to more than {MOST} operators",
                path=str(path),
                rule="local functions are expanded, and that must end in reasonable time",
                fix="export the model without local functions",
            )
        if function is None:
            yield PlacedNode(node, calls, known)
            continue
        if any(_key(function) == _key(outer) for outer in active):
            raise FileError(
                f"function {function.name!r} calls itself",
                path=str(path),
                rule="a function's body uses other functions only",
                fix="export the model without local functions",
            )
        name = node.name or f"{function.name}_{made}"
        body = _body(function, node, "/".join((*calls, name)))
        waiting.append((iter(body), (*calls, name), (*active, function), {**known, **_opsets(function)}))


def _key(function: FunctionProto) -> tuple[str, str, str]:
    return domain_of(function.domain), function.name, function.overload


def _opsets(owner: ModelProto | FunctionProto) -> dict[str, int]:
    return {domain_of(opset.domain): opset.version for opset in owner.opset_import}


def _body(function: FunctionProto, call: NodeProto, prefix: str) -> list[NodeProto]:
    """The function's nodes over the call's operands; inner names are those of the function after ``prefix``."""
    names = dict(zip(function.input, call.input, strict=False))
    names.update(dict.fromkeys(function.input[len(call.input) :], ""))
    names.update({formal: actual for formal, actual in zip(function.output, call.output, strict=False) if actual})
    names[""] = ""
    given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
    found = []
    for node in function.node:
        copy = NodeProto()
        copy.CopyFrom(node)
        for slot in (copy.input, copy.output):
            slot[:] = [names.setdefault(name, f"{prefix}/{name}") for name in slot]
        del copy.attribute[:]
        copy.attribute.extend(_bound(node, given))
        for attribute in copy.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _rename_captured(graph, names)
        found.append(copy)
    return found


def _bound(node: NodeProto, given: Mapping[str, AttributeProto]) -> Iterator[AttributeProto]:
    """A node's attributes; one that stands for an attribute of the call has its value, or is left out without one."""
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            yield attribute
        elif attribute.ref_attr_name in given:
            bound = AttributeProto()
            bound.CopyFrom(given[attribute.ref_attr_name])
            bound.name = attribute.name
            yield bound


def _rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Give what an inner graph reads from outside its new name."""
    waiting = [graph]
    while waiting:
        inner = waiting.pop()
        for node in inner.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            for attribute in node.attribute:
                waiting += [attribute.g, *attribute.graphs]


def captured(node: NodeProto, outside: Mapping[str, object]) -> list[str]:
    """What the graphs among a node's attributes read of the values outside, in order."""
    found: dict[str, None] = {}
    waiting = [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
    while waiting:
        graph = waiting.pop()
        for inner in graph.node:
            found.update(dict.fromkeys(name for name in inner.input if name in outside))
            waiting += [g for attribute in inner.attribute for g in (attribute.g, *attribute.graphs)]
        found.update(dict.fromkeys(output.name for output in graph.output if output.name in outside))
    return [name for name in found if name not in node.input]
