"""Recorder: turns a plan and its run into a recording, with expressions as rows and uids as ids.

The only place where the engine's objects become plain data: views read the recording alone, and need no engine. Rows
are made when somebody asks for the recording, not while planning, which most evaluations need alone. Each row is made
once: nodes come first, since ids are given out there, decisions after the schedule, since those about batches hold the
measured times of its kernels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body as Traced
from explorer.core.ir.function import Call, Item, Parameter
from explorer.core.ir.operation import Operation
from explorer.core.ir.recording_context import Scope as Box
from explorer.core.ir.source_location import Place, place_of
from explorer.core.types.custom_dtypes import dtype_name
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.ops.creation.constants import Full
from explorer.plan.graph.cost_model import flops_of, result_bytes
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.planner import Plan
from explorer.record import (
    Body,
    Group,
    Kind,
    Recording,
    Run,
    Scope,
    Source,
    Stage,
    Summary,
    Type,
)
from explorer.record.batches import trace_batches
from explorer.run.recording.batch_times import batch_timings
from explorer.run.recording.decision_rows import decision_rows, explanations
from explorer.run.recording.fingerprint import fingerprint, spoken
from explorer.run.recording.gradient_tables import gradients
from explorer.run.recording.layer_tables import layers, ports
from explorer.run.recording.stage_rows import schedule, stage

_MANY, _SHOWN = 16, 8
"""number of a tuple's members above which only the first ones are written, and how many"""
_INTEGERS = re.compile(r"[-0-9, ()]+")


class _Tables:
    """Rows of a recording under construction, and the objects that they were made from."""

    def __init__(self) -> None:
        self.recording = Recording()
        self.ids: dict[int, int] = {}
        self.operations: dict[str, int] = {}
        self.types: dict[int, int] = {}
        self.scopes: dict[int, int] = {}
        self.boxes: list[Box | None] = [None]
        """source object of each scope row"""
        self.sources: dict[Any, int] = {}
        self.bodies: dict[int, int] = {}
        self.flops: dict[int, int] = {}

    def operation(self, name: str) -> int:
        """Return the row of an operation's name."""
        if name not in self.operations:
            self.operations[name] = len(self.recording.operations)
            self.recording.operations.append(name)
        return self.operations[name]

    def type(self, type_: AnyType) -> int:
        """Return the row of a type."""
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
        """Return the row of a scope."""
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
        key = (id(node.code), node.instruction)
        row = self.sources.get(key)
        if row is None:
            place = node.code if isinstance(node.code, Place) else place_of(node.code, node.instruction)
            row = self.sources.get(place)
            if row is None:
                row = self.sources[place] = len(self.recording.sources)
                self.recording.sources.append(Source(*place))
            self.sources[key] = row
        return row

    def enter(self, rows: Sequence[tuple[Expr, int, int]]) -> None:
        """Add the rows of (node, decision that produced it, graph); ids are given out in this order."""
        nodes, expressions = self.recording.nodes, [node for node, _, _ in rows]
        self.ids.update({node.uid: row for row, node in enumerate(expressions)})
        # An operation is looked at once, however many nodes it has.
        operations = {id(node.operation): node.operation for node in expressions}
        known = {number: self._operation_row(operation) for number, operation in operations.items()}
        found = [known[id(node.operation)] for node in expressions]
        nodes.operation = [row.operation for row in found]
        nodes.kind = [
            row.kind if node.operands else row.kind_alone for row, node in zip(found, expressions, strict=True)
        ]
        nodes.label = [node.label for node in expressions]
        nodes.type = [self.type(node.type) for node in expressions]
        nodes.operands = [tuple([self.ids[operand.uid] for operand in node.operands]) for node in expressions]
        nodes.scope = [self.scope(node.scope) for node in expressions]
        nodes.source = [self.source(node) for node in expressions]
        nodes.flops = [flops_of(node, node.operands) for node in expressions]
        self.flops = {node.uid: flops for node, flops in zip(expressions, nodes.flops, strict=True)}
        nodes.bytes = [result_bytes(node) if node.operands else 0 for node in expressions]
        nodes.born = [born for _, born, _ in rows]
        nodes.gone = [-1] * len(rows)
        nodes.body = [body for _, _, body in rows]
        nodes.callee = [row.callee for row in found]
        nodes.attributes = {number: dict(row.attributes) for number, row in enumerate(found) if row.attributes}

    def _operation_row(self, operation: Operation) -> _OperationRow:
        callee = self.bodies[id(operation.body)] if isinstance(operation, Call) else -1
        named = {} if isinstance(operation, (Call, Item, Parameter)) else operation.attributes
        attributes = {name: _text(value) for name, value in named.items()}
        return _OperationRow(self.operation(operation.name), *_kinds(operation), callee, attributes)


class _OperationRow(NamedTuple):
    """What the rows of all nodes of an operation have in common."""

    operation: int
    kind: Kind
    kind_alone: Kind
    """kind of a node without operands"""
    callee: int
    attributes: dict[str, str]


def _kinds(operation: Operation) -> tuple[Kind, Kind]:
    """Return the kind of an operation's node with operands, and of one without."""
    if isinstance(operation, Call):
        return "call", "call"
    if isinstance(operation, Item):
        return "item", "item"
    if isinstance(operation, Parameter):
        return "input", "input"
    return "operation", "constant" if isinstance(operation, Full) and not operation.shape else "leaf"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        # Of integers, and of tuples of them, the representation is the same text, many times faster.
        text = repr(value) if set(map(type, value)) <= {int, tuple} else ""
        if not _INTEGERS.fullmatch(text):
            text = "(" + ", ".join(map(_text, value)) + ("," if len(value) == 1 else "") + ")"
        if len(value) <= _MANY:
            return text
        # A batch gathers hundreds of runs of rows: nobody reads them all, but a comparison must tell them apart.
        digest = hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()
        return f"({', '.join(map(_text, value[:_SHOWN]))}, … {len(value):,} in all, #{digest})"
    if isinstance(value, np.dtype):
        return dtype_name(value)
    return spoken(value) if callable(value) else str(value)


def build(
    planned: Plan,
    title: str,
    options: Mapping[str, Any],
    run: Run | None = None,
    values: Mapping[int, Summary] | None = None,
    reused: bool = False,
) -> Recording:
    """Return the recording of a plan, with its run if there was one; ``values`` are summaries by uid.

    ``reused``: the run used a program planned before, for a graph of the same structure.
    """
    tables = _Tables()
    recording, graph = tables.recording, planned.graph
    everything = _enter_nodes(tables, graph)
    ids, nodes = tables.ids, recording.nodes
    recording.gradients = gradients(graph, everything, ids)
    recording.layers, recording.ports = layers(tables.boxes), ports(tables.boxes, ids)
    for decision, node in graph.removed:
        if nodes.gone[ids[node.uid]] < 0:
            nodes.gone[ids[node.uid]] = decision
    recording.substitutions = [(decision, ids[old.uid], ids[new.uid]) for decision, old, new in graph.substitutions]
    recording.groups = [
        Group(group.decision, group.kind, group.label, tuple([ids[node.uid] for node in group.members]))
        for group in graph.groups
    ]
    recording.schedule = schedule(planned, ids)
    subjects = [tuple([ids[node.uid] for node in decision.subjects]) for decision in graph.decisions]
    produced = [tuple([ids[n.uid] for n in decision.produced if n.uid in ids]) for decision in graph.decisions]
    measured: dict[int, dict[str, Any]] = {}
    if run is not None:
        tables_of_batches = nodes, recording.groups, recording.substitutions, subjects, recording.schedule.kernels
        measured = batch_timings(trace_batches(*tables_of_batches), produced, run.steps)
    recording.decisions = decision_rows(graph.decisions, subjects, produced, ids, measured)
    recording.explanations = explanations(graph.decisions)
    recording.stages = [stage(planned_stage, tables.flops, graph.groups) for planned_stage in graph.stages]
    recording.title, recording.options = title, dict(options)
    recording.fingerprint = fingerprint(planned)
    if run is not None:
        summaries = {ids[uid]: summary for uid, summary in (values or {}).items() if uid in ids}
        recording.run = replace(run, values=summaries)
        recording.stages.append(
            Stage(
                "run",
                "run",
                recording.end,
                recording.end,
                {"steps": len(run.steps)},
                "The schedule, executed and measured"
                + (" by a program that was made before, for a graph of the same structure." if reused else "."),
                run.micros,
            )
        )
    return recording


def _rows(graph: PlanGraph) -> tuple[list[tuple[Expr, int, int]], list[Traced]]:
    """Return (node, decision that produced it, graph it belongs to) for each row, and the bodies, by id."""
    bodies = _bodies([*graph.recorded, *[node for _, node in graph.added]])
    rows = [(node, -1, 0) for node in graph.recorded]
    seen = {node.uid for node in graph.recorded}
    for row, body in enumerate(bodies, 1):
        for node in body.nodes:
            if node.uid not in seen:
                seen.add(node.uid)
                rows.append((node, -1, row))
    rows.extend([(node, decision, 0) for decision, node in graph.added if node.uid not in seen])
    return rows, bodies


def expressions(planned: Plan) -> list[Expr]:
    """Return the expressions of a recording's nodes, by id."""
    return [node for node, _, _ in _rows(planned.graph)[0]]


def _enter_nodes(tables: _Tables, graph: PlanGraph) -> list[Expr]:
    """Enter a row for each node, and for each graph of nodes; return the expressions by id."""
    recording = tables.recording
    rows, bodies = _rows(graph)
    for row, body in enumerate(bodies, 1):
        tables.bodies[id(body)] = row
    tables.enter(rows)
    everything = [node for node, _, _ in rows]
    ids = tables.ids
    recording.bodies.append(Body("", (), ()))
    for body in bodies:
        inputs = tuple([ids[node.uid] for node in (*body.parameters, *body.captured)])
        recording.bodies.append(Body(body.name, inputs, tuple([ids[node.uid] for node in body.outputs])))
    leaves = tuple([ids[node.uid] for node in graph.recorded if not node.operands])
    recording.bodies[0] = Body("", leaves, tuple([ids[root.uid] for root in graph.recorded_roots]))
    return everything


def _bodies(nodes: Iterable[Expr]) -> list[Traced]:
    """Return the bodies of all calls, nested ones too, each once, in order of first use."""
    bodies: dict[int, Traced] = {}
    pending = list(nodes)
    while pending:
        calls = [node.operation.body for node in pending if isinstance(node.operation, Call)]
        pending = []
        for body in calls:
            if id(body) not in bodies:
                bodies[id(body)] = body
                pending.extend(body.nodes)
    return list(bodies.values())
