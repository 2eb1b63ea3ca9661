"""Constancy: which values are the same in every run of a plan, because no parameter lies below them.

Asked by rules and passes that move work out of the runs: an expensive rewrite of weights pays if it is done once. The
answer is kept for each node, and found without recursion.
"""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.plan.graph.plan_graph import PlanGraph


class Prepared(set[int]):
    """Uids of the live nodes that are computed once for all runs, as the pass constants notes them."""


def is_constant(node: Expr, graph: PlanGraph) -> bool:
    """Whether a node is computed by pure operations from tensors and described constants alone."""
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
        # A parameter below is enough: its value differs between runs, and so does everything that is computed from it.
        constancy[current.uid] = constant and all(constancy[o.uid] for o in operands)
    return constancy[node.uid]


def prepared(graph: PlanGraph) -> list[Expr]:
    """Return the live nodes that can be computed once for all runs, in topological order, without leaves.

    Roots, and nodes that read them, are left out, since the values of roots are handed to the caller after each run. In
    a plan without parameters every value is constant, and runs once anyway: nothing is returned.
    """
    if not graph.has_parameters:
        return []
    given_away = {root.uid for root in graph.roots}
    available = graph.available_before_run()
    constants: list[Expr] = []
    for node in graph.live:
        if node.uid in available:
            continue
        if node.uid in given_away or any(operand.uid in given_away for operand in graph.inputs[node.uid]):
            given_away.add(node.uid)
        elif is_constant(node, graph):
            constants.append(node)
    return constants
