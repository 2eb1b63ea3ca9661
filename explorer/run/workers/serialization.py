"""Programs as bytes: a finished plan is written here and read on a worker, which plans nothing anew.

Expressions refuse to be pickled, since a copy would have another identity. Here the whole graph of a plan travels, with
its uids, which mean something inside that one plan alone, but without the values of its tensors. Each expression is
written as a number, and its row, with the numbers of its operands, once next to them: so depth is no recursion, and
cycles between bodies and calls no problem.
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
    """Graph of a plan that was read: as much as running it needs."""

    inputs: dict[int, tuple[Expr, ...]]
    constancy: dict[int, bool] = field(default_factory=dict)

    def resolve(self, node: Expr) -> Expr:
        """Return the node: nothing is replaced any more."""
        return node


def ship(planned: Plan) -> bytes:
    """Return a plan as bytes; raises PicklingError, TypeError or AttributeError for attributes that have no bytes."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # its base has no types
        """Pickler of plans: expressions by number, graphs and bodies as far as running them needs."""

        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file, protocol=5)
            self.numbers: dict[int, int] = {}
            self.nodes: list[Expr] = []
            self.inputs: dict[int, tuple[Expr, ...]] = {}

        def persistent_id(self, value: Any) -> tuple[int, bool] | None:
            if not isinstance(value, Expr):
                return None
            number = self.numbers.setdefault(value.uid, len(self.nodes))
            if number == len(self.nodes):
                self.nodes.append(value)
            return number, isinstance(value, Tensor)

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
    for node in pickler.nodes:  # grows meanwhile: rows name further nodes
        operands = pickler.inputs.get(node.uid, ())
        pickler.dump((node.uid, node.operation, node.type, operands, node.label if isinstance(node, Tensor) else ""))
    return file.getvalue()


def receive(data: bytes) -> Plan:
    """Return the plan that ``ship`` wrote, in a process of the same user: it is trusted, as all that Dask sends is.

    Its tensors hold zeros: their values come with the pieces that read them.
    """
    nodes: list[Expr] = []

    class Unpickler(pickle.Unpickler):
        """Reader of numbers as expressions, made when they are first named and filled in when their row is read."""

        def persistent_load(self, key: tuple[int, bool]) -> Expr:
            number, is_tensor = key
            if number == len(nodes):
                nodes.append(object.__new__(Tensor if is_tensor else Expr))
            return nodes[number]

    unpickler = Unpickler(io.BytesIO(data))
    planned = unpickler.load()
    for node in nodes:  # grows meanwhile, as it did when they were written
        node.uid, node.operation, node.type, node.operands, label = unpickler.load()
        node.scope, node.code, node.instruction = None, None, 0
        if isinstance(node, Tensor):
            node.name = label
            # One zero, seen as a whole array: a worker allocates no memory for values that come with the pieces.
            node.storage = Storage(np.broadcast_to(np.zeros((), node.dtype), node.shape).view())
    return cast(Plan, planned)


def _running_part(planned: Plan) -> ShippedGraph:
    """Return the operands of all nodes of a schedule as they stand in the graph, and which of them are constant."""
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
