"""Control flow that is known before the run: conditions whose value is known, and loops that have no iterations."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item
from explorer.core.types.tensor_type import Number
from explorer.ops.control.cond import Cond
from explorer.ops.control.scan import Scan
from explorer.ops.control.while_loop import WhileLoop
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import constant
from explorer.plan.rewrite.rule import Answer, Reason, Rule

_DEPTH = 16
"""maximum number of consecutive operations between the constants and the condition"""


def known_scalar(node: Expr, graph: PlanGraph, depth: int = _DEPTH) -> Number | None:
    """Return the value of a scalar that is computed only from structured constants, or None for other nodes.

    Constants are folded only at the end of a sweep, so at this point the condition is still the recorded comparison,
    not a constant.
    """
    value = constant(node, graph)
    operands = graph.operands(node)
    if value is not None or not operands or not depth or isinstance(node.operation, (Call, Item)):
        return value
    if not all(item.type.plain and item.shape == () for item in (node, *operands)) or not node.operation.pure:
        return None
    values = [known_scalar(operand, graph, depth - 1) for operand in operands]
    if any(item is None for item in values):
        return None
    arrays = [np.asarray(item, operand.dtype) for item, operand in zip(values, operands, strict=True)]
    with np.errstate(all="ignore"):
        result: Number = node.operation.compute(*arrays).item()
    return result


class KnownCondition(Rule):
    """ex.cond with a constant condition becomes a call of the selected function."""

    numerics = "exact"
    roots = (Cond,)
    branch_known = Reason(
        "branch_known",
        "Only the branch `{branch}` of `{choice}` is computed, because its condition is the constant {condition}, so "
        "the other branch is never taken.",
        meaning="ex.cond(True, f, g, x) is f(x).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        condition, *operands = graph.operands(node)
        value = known_scalar(condition, graph)
        if value is None or not isinstance(node.operation, Cond):
            return None
        branch = node.operation.branches[0 if value else 1]
        facts = {"branch": branch.label, "condition": str(bool(value))}
        return self.branch_known.applied(branch(*operands), choice=node, **facts)


class LoopWithoutTurns(Rule):
    """The result of a loop that has no iterations is its initial state."""

    numerics = "exact"
    roots = (WhileLoop, Scan, Item)
    among = (WhileLoop, Scan)
    no_turns = Reason(
        "no_turns",
        "The loop `{loop}` is replaced by its initial state, because the loop has no iterations: {why}.",
        meaning="ex.while_loop(condition, body, state) is state if the condition is false from the start.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        is_item = isinstance(node.operation, Item)
        # the operation of an Item has an index
        (loop, *_), index = (graph.operands(node), node.operation.index) if is_item else ((node,), 0)  # type: ignore[attr-defined]
        operation = loop.operation
        if isinstance(operation, WhileLoop):
            condition, *state = graph.operands(loop)
            if known_scalar(condition, graph) != 0:
                return None
            why = "its condition is the constant False"
        elif isinstance(operation, Scan):
            state = [*graph.operands(loop)][: operation.states]
            if operation.length or index >= operation.states:
                return None
            why = "its sequences have no elements"
        else:
            return None
        if node.type != state[index].type:  # a loop with several results, which are read through Items
            return None
        return self.no_turns.applied(state[index], loop=loop, why=why)
