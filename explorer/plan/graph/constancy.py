"""Constants: what every run of a plan finds the same, because no parameter and no given value lies below it."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.plan.graph.plan_graph import PlanGraph


def is_constant(node: Expr, graph: PlanGraph) -> bool:
    """Whether a node is computed from tensors and described constants alone; remembered for each node."""
    known = graph.constancy
    node = graph.resolve(node)
    pending = [node]
    while pending:
        current = pending[-1]
        if current.uid in known:
            pending.pop()
            continue
        operands = graph.operands(current)
        waiting = [operand for operand in operands if operand.uid not in known]
        if waiting:
            pending.extend(waiting)
            continue
        pending.pop()
        operation = current.operation
        constant = operation.pure and not isinstance(operation, Parameter)
        known[current.uid] = constant and all(known[o.uid] for o in operands)
    return known[node.uid]


def prepared(graph: PlanGraph) -> list[Expr]:
    """The live nodes that can be computed once for all runs, in topological order: constants beside the leaves.

    Roots, and what is computed from them, are left out: their values are given away. Without a parameter among the
    leaves the whole plan would be constant, and nothing is.
    """
    if not graph.has_parameters:
        return []
    barred = {root.uid for root in graph.roots}
    there = graph.available_before_run()
    found: list[Expr] = []
    for node in graph.live:
        if node.uid in there:
            continue
        if node.uid in barred or any(operand.uid in barred for operand in graph.inputs[node.uid]):
            barred.add(node.uid)
        elif is_constant(node, graph):
            found.append(node)
    return found
