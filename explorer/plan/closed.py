"""Calls that stay closed: their body is planned on its own, with everything that it reads as a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.core.expr import Expr, surrounded
from explorer.core.function import Body, Parameter
from explorer.core.graph import rebuild

if TYPE_CHECKING:
    from explorer.plan.planner import Options, Planned


def plan_closed(body: Body, options: Options) -> tuple[Planned, tuple[Expr, ...]]:
    """The plan of a body, and the parameters that stand for a call's operands, in their order; made once."""
    from explorer.plan.planner import plan
    from explorer.plan.rule import Link

    key = ("closed", options, tuple(Link.chain))
    held: tuple[Planned, tuple[Expr, ...]] | None = body.derived.get(key)
    if held is None:
        inputs, outputs = _alone(body)
        held = body.derived.setdefault(key, (plan(outputs, options), inputs))
    return held


def _alone(body: Body) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The body's inputs and outputs; hidden operands are replaced, since what computes them stands outside."""
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
