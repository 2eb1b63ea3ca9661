"""Calls that stay closed: their body stands on its own, with everything that it reads as a parameter."""

from __future__ import annotations

from explorer.core.ir.expr import Expr, surrounded
from explorer.core.ir.function import Body, Parameter
from explorer.core.ir.traversal import rebuild


def alone(body: Body) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The inputs, in the order of a call's operands, and outputs of a body that reads nothing else.

    Hidden operands are replaced by parameters, since what computes them stands outside.
    """
    if not body.captured:
        return body.parameters, body.outputs
    stand_ins = {}
    for node in body.captured:
        with surrounded(body.scope, node.code, node.instruction):
            stand_ins[node.uid] = Parameter(node.type, node.operation.label)()
    given = {**stand_ins, **{node.uid: node for node in body.parameters}}
    made = rebuild([node for node in body.nodes if node.uid not in given], given, lambda node: node.scope)
    inputs = (*body.parameters, *[stand_ins[node.uid] for node in body.captured])
    return inputs, tuple([made[node.uid] for node in body.outputs])
