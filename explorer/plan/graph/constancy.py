"""Constancy: whether a value is the same in every run of a plan because it depends on no parameter.

Rules and passes that move work out of the runs use it. For example, an expensive rewrite of weights saves time if it is
computed only once. The result is cached for each node and computed without recursion.
"""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.schedule.schedule import Kernel


class Prepared(set[int]):
    """Uids of the live nodes that are computed once for all runs; the pass `Constants` fills this set."""


def is_constant(node: Expr, graph: PlanGraph) -> bool:
    """Return whether ``node`` is computed only from tensors and structured constants, by pure operations."""
    constancy = graph.constancy
    node = graph.resolve(node)
    pending = [node]
    while pending:
        current = pending[-1]
        if current.uid in constancy:
            pending.pop()
            continue
        operands = graph.operands(current)
        waiting = [operand for operand in operands if operand.uid not in constancy]
        if waiting:
            pending.extend(waiting)
            continue
        pending.pop()
        operation = current.operation
        constant = operation.pure and not isinstance(operation, Parameter)
        # If one operand depends on a parameter, the node is not constant, because the parameter differs between runs.
        constancy[current.uid] = constant and all(constancy[o.uid] for o in operands)
    return constancy[node.uid]


def constants_of(kernel: Kernel, graph: PlanGraph) -> set[int]:
    """Return the uids of the operands of a kernel that are the same in every run; none if there is only one run."""
    return {read.uid for read in kernel.reads if is_constant(read, graph)} if graph.has_parameters else set()


def prepared(graph: PlanGraph) -> list[Expr]:
    """Return the live nodes that can be computed once for all runs, in topological order and without leaves.

    Roots and the nodes that read them are excluded, because root values are returned to the caller after each run. In a
    plan without parameters every value is constant and there is only one run, so the result is empty.
    """
    if not graph.has_parameters:
        return []
    returned = {root.uid for root in graph.roots}
    available = graph.available_before_run()
    constants: list[Expr] = []
    for node in graph.live:
        if node.uid in available:
            continue
        if node.uid in returned or any(operand.uid in returned for operand in graph.inputs[node.uid]):
            returned.add(node.uid)
        elif is_constant(node, graph):
            constants.append(node)
    return constants
