"""Rows of nodes, and of their operations, types, scopes and source lines.

Each object has one row, found by identity, so ten thousand nodes of a repeated block refer to a few rows of types and
lines. Node ids are assigned in the order in which ``enter`` receives the nodes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Body, Call, Item, Parameter
from explorer.core.ir.function import Body as Traced
from explorer.core.ir.recording_context import Scope as Box
from explorer.core.ir.source_location import (
    CalledCode,
    CodeLocation,
    SourceLocation,
    differing,
    function_code,
    location_of,
)
from explorer.core.types.custom_dtypes import dtype_name
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.ops.creation.constants import Full
from explorer.plan.graph.cost_model import flops_of, result_bytes
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.planner import Plan
from explorer.record import (
    Kind,
    Recording,
    Scope,
    Source,
    Type,
)

_MAX_ITEMS, _LISTED_ITEMS = 16, 8
"""length above which only the first items of a tuple are written, and the number of these items"""
_INTEGERS = re.compile(r"[-0-9, ()]+")


class NodeRows:
    """Rows of a recording under construction, and the objects from which they were created."""

    def __init__(self) -> None:
        self.recording = Recording()
        self.ids: dict[int, int] = {}
        self.operations: dict[str, int] = {}
        self.types: dict[int, int] = {}
        self.scopes: dict[int, int] = {}
        self.boxes: list[Box | None] = [None]
        """scope object for each scope row"""
        self.sources: dict[Any, int] = {}
        self.callers: list[tuple[SourceLocation, ...]] = []
        """for each row of sources, the lines of the calls that led to the source line, innermost first"""
        self.recorded_lines: dict[str, set[int]] = {}
        """file name of a cell or file of the user → its lines at which nodes were recorded"""
        self.bodies: dict[int, int] = {}
        self.flops: dict[int, int] = {}

    def operation(self, name: str) -> int:
        """Return the row of an operation's name; add the row if it is new."""
        if name not in self.operations:
            self.operations[name] = len(self.recording.operations)
            self.recording.operations.append(name)
        return self.operations[name]

    def type(self, type_: AnyType) -> int:
        """Return the row of a type; add the row if it is new."""
        row = self.types.get(id(type_))
        if row is None:
            if isinstance(type_, TupleType):
                parts = tuple([self.type(part) for part in type_.parts])
                type_row = Type((), "tuple", type_.device.name, parts)
            else:
                type_row = Type(type_.shape, dtype_name(type_.dtype), type_.device.name)
            row = self.types[id(type_)] = len(self.recording.types)
            self.recording.types.append(type_row)
        return row

    def scope(self, scope: Box | None) -> int:
        """Return the row of a scope; add the row if it is new."""
        # Not recursive, because nets have hundreds of nested boxes.
        path = []
        while scope is not None and id(scope) not in self.scopes:
            path.append(scope)
            scope = scope.parent
        row = 0 if scope is None else self.scopes[id(scope)]
        for box in reversed(path):
            if box.kind == "twin":
                self.scopes[id(box)] = row
                continue
            self.boxes.append(box)
            self.recording.scopes.append(Scope(box.name, box.kind, row, box.type))
            row = self.scopes[id(box)] = len(self.recording.scopes) - 1
        return row

    def source(self, node: Expr) -> int:
        """Return the row of a node's source line, or −1."""
        if node.code is None:
            return -1
        # Code objects and their positions live as long as the nodes, which live as long as this object.
        key = (id(node.code), node.instruction)
        row = self.sources.get(key)
        if row is None:
            if isinstance(node.code, SourceLocation):
                location = node.code
                if isinstance(location, CodeLocation):
                    self.recorded_lines.setdefault(location.filename, set()).add(location.line)
            else:
                code = function_code(node.code)
                location = location_of(code, node.instruction)
                self.recorded_lines.setdefault(code.co_filename, set()).add(location.line)
            callers = node.code.callers() if isinstance(node.code, CalledCode) else ()
            row = self.sources.get((location, callers))
            if row is None:
                row = self.sources[location, callers] = len(self.recording.sources)
                self.recording.sources.append(Source(*location))
                self.callers.append(callers)
            self.sources[key] = row
        return row

    def add_callers(self) -> None:
        """Add the line of the call to the rows of lines at which several calls of a function recorded nodes."""
        sources = self.recording.sources
        rows_of: dict[Source, list[int]] = {}
        for row, source in enumerate(sources):
            rows_of.setdefault(source, []).append(row)
        for rows in rows_of.values():
            if len(rows) > 1:
                for row, caller in zip(rows, differing([self.callers[row] for row in rows]), strict=True):
                    if caller is not None:
                        sources[row] = replace(sources[row], caller_where=caller.where, caller_line=caller.line)

    def enter(self, rows: Sequence[tuple[Expr, int, int]]) -> None:
        """Add a row for each (node, decision that produced it, graph), with ids in this order."""
        nodes, expressions = self.recording.nodes, [node for node, _, _ in rows]
        self.ids.update({node.uid: row for row, node in enumerate(expressions)})
        # Each operation is inspected once, even if it has many nodes.
        operations = {id(node.operation): node.operation for node in expressions}
        row_of = {key: self._operation_row(operation) for key, operation in operations.items()}
        operation_rows = [row_of[id(node.operation)] for node in expressions]
        nodes.operation = [row.operation for row in operation_rows]
        nodes.kind = [
            row.kind if node.operands else row.kind_alone for row, node in zip(operation_rows, expressions, strict=True)
        ]
        nodes.label = [node.label for node in expressions]
        nodes.type = [self.type(node.type) for node in expressions]
        nodes.operands = [tuple([self.ids[operand.uid] for operand in node.operands]) for node in expressions]
        nodes.scope = [self.scope(node.scope) for node in expressions]
        nodes.source = [self.source(node) for node in expressions]
        self.flops = {node.uid: flops_of(node, node.operands) for node in expressions}
        nodes.flops = [self.flops[node.uid] for node in expressions]
        nodes.bytes = [result_bytes(node) if node.operands else 0 for node in expressions]
        nodes.born = [decision for _, decision, _ in rows]
        nodes.gone = [-1] * len(rows)
        nodes.body = [body for _, _, body in rows]
        nodes.callee = [row.callee for row in operation_rows]
        nodes.attributes = {key: dict(row.attributes) for key, row in enumerate(operation_rows) if row.attributes}

    def _operation_row(self, operation: Operation) -> _OperationRow:
        callee = self.bodies[id(operation.body)] if isinstance(operation, Call) else -1
        attributes_of_operation = {} if isinstance(operation, (Item, Parameter)) else operation.attributes
        attributes = {
            name: attribute_text(value)
            for name, value in attributes_of_operation.items()
            if not isinstance(value, Traced)
        }
        if operation.family:
            self.recording.families[operation.name] = operation.family
        return _OperationRow(self.operation(operation.name), *_kinds(operation), callee, attributes)


class _OperationRow(NamedTuple):
    """Values that the rows of all nodes of one operation share."""

    operation: int
    kind: Kind
    kind_alone: Kind
    """kind of a node that has no operands"""
    callee: int
    attributes: dict[str, str]


def _kinds(operation: Operation) -> tuple[Kind, Kind]:
    """Return the kinds of an operation's nodes with operands, and without."""
    if isinstance(operation, Call):
        return "call", "call"
    if isinstance(operation, Item):
        return "item", "item"
    if isinstance(operation, Parameter):
        return "input", "input"
    return "operation", "constant" if isinstance(operation, Full) and not operation.shape else "leaf"


def attribute_text(value: Any) -> str:
    """Return the value of an attribute as text; a long tuple is shortened to its first items, length and digest."""
    if isinstance(value, tuple):
        # For integers and tuples of integers, repr gives the same text, many times faster.
        text = repr(value) if set(map(type, value)) <= {int, tuple} else ""
        if not _INTEGERS.fullmatch(text):
            text = "(" + ", ".join(map(attribute_text, value)) + ("," if len(value) == 1 else "") + ")"
        if len(value) <= _MAX_ITEMS:
            return text
        # Hundreds of row ranges, as in a batch, are too many to read, but comparisons must distinguish them.
        digest = hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()
        return f"({', '.join(map(attribute_text, value[:_LISTED_ITEMS]))}, … {len(value):,} in all, #{digest})"
    if isinstance(value, np.dtype):
        return dtype_name(value)
    return callable_name(value) if callable(value) else str(value)


_BYTES = 8


def fingerprint(planned: Plan) -> str:
    """Return a digest of the planned structure: operations, attributes, edges, types and kernels."""
    schedule = planned.schedule
    pairs = zip(schedule.kernels, schedule.placements, strict=True)
    return graph_fingerprint(planned.graph, [(kernel.nodes, placement.buffer) for kernel, placement in pairs])


def graph_fingerprint(graph: PlanGraph, kernels: Sequence[tuple[Sequence[Expr], int]] = ()) -> str:
    """Return a digest of a graph's operations, attributes, edges and types, and of kernels with their buffers."""
    digest = hashlib.blake2b(digest_size=_BYTES)
    index_of: dict[int, int] = {}
    _hash_nodes(digest, index_of, [(node, graph.inputs[node.uid]) for node in graph.live])
    for nodes, buffer in kernels:
        digest.update((",".join([str(index_of[node.uid]) for node in nodes]) + f"@{buffer}|").encode())
    return digest.hexdigest()


def _hash_nodes(digest: Any, index_of: dict[int, int], nodes: Iterable[tuple[Expr, tuple[Expr, ...]]]) -> None:
    """Add nodes and their operands to the digest in topological order, and assign indices to their uids."""
    structures: dict[int, str] = {}
    types: dict[int, str] = {}
    for node, operands in nodes:
        index_of[node.uid] = len(index_of)
        structure_text = structures.get(id(node.operation))
        if structure_text is None:
            structure_text = structures[id(node.operation)] = _structure(node.operation)
        edges = ",".join([str(index_of[operand.uid]) for operand in operands])
        type_text = types.get(id(node.type))
        if type_text is None:
            type_text = types[id(node.type)] = repr(node.type)
        digest.update(f"{structure_text}:{edges}:{type_text};".encode())


def _structure(operation: Operation) -> str:
    """Return an operation and its attributes as text without memory addresses; a call includes its body's digest."""
    if type(operation) is Call:
        return f"call {operation.label}({_body_digest(operation.body)})"
    attributes = [
        f"{name}={_body_digest(v) if isinstance(v, Body) else callable_name(v) if callable(v) else repr(v)}"
        for name, v in operation.attributes.items()
    ]
    return f"{operation.name}({','.join(attributes)})"


def _body_digest(body: Body) -> str:
    """Return the digest of a body; captured values contribute only their types."""
    cached: str | None = body.derived.get("fingerprint")
    if cached is None:
        digest = hashlib.blake2b(digest_size=_BYTES)
        inputs = (*body.parameters, *body.captured)
        digest.update(";".join([repr(node.type) for node in inputs]).encode())
        index_of = {node.uid: index for index, node in enumerate(inputs)}
        _hash_nodes(digest, index_of, [(node, node.operands) for node in body.nodes if node.uid not in index_of])
        digest.update(",".join([str(index_of[output.uid]) for output in body.outputs]).encode())
        cached = body.derived["fingerprint"] = digest.hexdigest()
    return cached


def callable_name(value: Any) -> str:
    """Return the name of a function or class, without its memory address."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))
