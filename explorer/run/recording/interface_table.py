"""Interface of a model: its inputs and outputs with their names in its file, and what the file states about itself.

Node labels do not suffice: one value may be two outputs, and a leaf may be an input or a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import Scope
from explorer.record import InterfaceRow, Recording


class InterfaceValue(NamedTuple):
    """Input or output of a model, with its expression."""

    direction: Literal["input", "output"]
    name: str
    node: Expr


class OperatorOperands(NamedTuple):
    """Formal names of an operator's inputs and outputs, as in FileOperator, and the values of its outputs.

    ``definition`` is the payload of the operator's box.
    """

    definition: object
    parameters: tuple[tuple[str, int], ...]
    output_names: tuple[str, ...]
    outputs: tuple[Any, ...]


class Interface(NamedTuple):
    """Inputs and outputs of a model, (name, value) pairs that its file states about itself, and its operators."""

    values: Sequence[InterfaceValue] = ()
    metadata: Sequence[tuple[str, str]] = ()
    operators: Sequence[OperatorOperands] = ()

    def record(self, recording: Recording, ids: Mapping[int, int], boxes: Sequence[Scope | None]) -> None:
        """Add the interface to a recording; ``boxes`` contains the scope of each scope row.

        A value without a recorded node has no row.
        """
        # Boxes of inner graphs have other definitions, whose operands may have the same names. An inner graph may have
        # been recorded several times, of which the plan uses one.
        operands: dict[int, OperatorOperands] = {}
        for each in self.operators:
            if id(each.definition) not in operands or any(_node(value, ids) >= 0 for value in each.outputs):
                operands[id(each.definition)] = each
        for index, row in enumerate(recording.operators):
            box = boxes[row.scope]
            if box is not None and (own := operands.get(id(box.payload))) is not None:
                nodes = [_node(value, ids) for value in own.outputs]
                results = tuple(zip(own.output_names, nodes, strict=True))
                recording.operators[index] = replace(row, parameters=own.parameters, results=results)
        _enter_inner_results(recording)
        recording.interface = [
            InterfaceRow(value.direction, value.name, ids[value.node.uid])
            for value in self.values
            if value.node.uid in ids
        ]
        recording.metadata = [*self.metadata]


def _enter_inner_results(recording: Recording) -> None:
    """Enter the results of operators in the graphs of an If or Loop, whose nodes are copies of the built ones.

    The result of an operator with one output is the only node in its box that is read outside the box, or is an output
    of the graph.
    """
    wanted = {
        row.scope: index
        for index, row in enumerate(recording.operators)
        if len(row.results) == 1 and row.results[0][1] < 0
    }
    if not wanted or len(recording.bodies) < 2:
        return
    nodes, scopes = recording.nodes, recording.scopes
    around: list[frozenset[int]] = []
    """for each scope, the wanted scopes that contain it, with the scope itself; a parent precedes its children"""
    for number, scope in enumerate(scopes):
        outer = around[scope.parent] if scope.parent >= 0 else frozenset[int]()
        around.append(outer | {number} if number in wanted else outer)
    found: dict[int, set[int]] = {number: set() for number in wanted}
    for body in recording.bodies[1:]:
        for node in body.outputs:
            for number in around[nodes.scope[node]]:
                found[number].add(node)
    for reader, operands in enumerate(nodes.operands):
        if nodes.body[reader] > 0:
            for node in operands:
                for number in around[nodes.scope[node]] - around[nodes.scope[reader]]:
                    found[number].add(node)
    for number, results in found.items():
        if len(results) == 1:
            row = recording.operators[wanted[number]]
            recording.operators[wanted[number]] = replace(row, results=((row.results[0][0], min(results)),))


def _node(value: object, ids: Mapping[int, int]) -> int:
    """Return the node of a value; −1 if it was not recorded."""
    return ids.get(value.uid, -1) if isinstance(value, Expr) else -1


NO_INTERFACE = Interface()
"""interface of a program that is not a model of a file"""
