"""Serialized programs: finished plans, which workers load without planning again.

Expressions cannot be pickled, since a copy would have another identity. This module writes the graph of a plan with its
uids, which are valid only inside that plan, but without the tensors' values. References to expressions are written as
indices into a table with one row per expression, which contains the indices of its operands. Deep graphs therefore need
no recursion, and bodies and calls may refer to each other.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor
from explorer.plan.graph.constancy import is_constant
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.options import Options
from explorer.plan.planner import PLANNED, Plan, plan_closed
from explorer.plan.schedule.schedule import Schedule


@dataclass(slots=True)
class ShippedGraph:
    """Graph of a plan that was read, with only the parts needed to run it."""

    inputs: dict[int, tuple[Expr, ...]]
    constancy: dict[int, bool] = field(default_factory=dict)

    def resolve(self, node: Expr) -> Expr:
        """Return ``node`` itself, since nodes are no longer replaced."""
        return node


def ship(planned: Plan) -> bytes:
    """Return a plan as bytes; raise PicklingError, TypeError or AttributeError if an attribute cannot be pickled."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # its base has no types
        """Pickler that writes expressions as indices, and only the parts of graphs and bodies that a run needs."""

        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file, protocol=5)
            self.indices: dict[int, int] = {}
            self.nodes: list[Expr] = []
            self.inputs: dict[int, tuple[Expr, ...]] = {}

        def persistent_id(self, value: Any) -> tuple[int, bool] | None:
            if not isinstance(value, Expr):
                return None
            index = self.indices.setdefault(value.uid, len(self.nodes))
            if index == len(self.nodes):
                self.nodes.append(value)
            return index, isinstance(value, Tensor)

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, Plan):
                graph = _running_part(value)
                self.inputs.update(graph.inputs)
                return _plan, (value.schedule, graph)
            if isinstance(value, Body):
                return _body, (value.name, value.derived.get("branches"), *plan_closed(value, planned.options))
            return super().reducer_override(value)

    file = io.BytesIO()
    pickler = Pickler(file)
    pickler.dump(planned)
    for node in pickler.nodes:  # grows during the loop, since rows refer to further nodes
        operands = pickler.inputs.get(node.uid, ())
        pickler.dump((node.uid, node.operation, node.type, operands, node.label if isinstance(node, Tensor) else ""))
    return file.getvalue()


def receive(data: bytes) -> Plan:
    """Return a plan written by ``ship`` in a process of the same user; the bytes are trusted, as with Dask.

    The plan's tensors are zero, because their values arrive with the pieces that read them.
    """
    nodes: list[Expr] = []

    class Unpickler(pickle.Unpickler):
        """Unpickler that converts indices to expressions, created at their first reference and completed later."""

        def persistent_load(self, key: tuple[int, bool]) -> Expr:
            index, is_tensor = key
            if index == len(nodes):
                nodes.append(object.__new__(Tensor if is_tensor else Expr))
            return nodes[index]

    unpickler = Unpickler(io.BytesIO(data))
    planned = unpickler.load()
    for node in nodes:  # grows during the loop, as it did when the nodes were written
        node.uid, node.operation, node.type, node.operands, label = unpickler.load()
        node.scope, node.code, node.instruction = None, None, 0
        if isinstance(node, Tensor):
            node.name = label
            # A broadcast zero takes no memory; the pieces contain the values.
            node.storage = Storage(np.broadcast_to(np.zeros((), node.dtype), node.shape).view())
    return cast(Plan, planned)


def _running_part(planned: Plan) -> ShippedGraph:
    """Return a graph with only the current operands and constants of a schedule's nodes."""
    schedule, graph = planned.schedule, planned.graph
    nodes = [*schedule.leaves, *[node for kernel in schedule.kernels for node in kernel.nodes]]
    inputs = {node.uid: graph.inputs[node.uid] for node in nodes}
    values = {value.uid: value for node in nodes for value in (node, *inputs[node.uid])}
    return ShippedGraph(inputs, {uid: is_constant(value, graph) for uid, value in values.items()})


def _plan(schedule: Schedule, graph: ShippedGraph) -> Plan:
    return Plan(cast(PlanGraph, graph), schedule, Options(), 0.0)


def _body(name: str, branches: Any, planned: Plan, inputs: tuple[Expr, ...]) -> Body:
    derived = {PLANNED: (planned, inputs), "branches": branches}
    return Body(name, inputs, (), planned.schedule.roots, derived=derived)
