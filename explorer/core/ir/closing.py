"""Closing of bodies: the outer values that a body reads become parameters."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Parameter
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.traversal import rebuild


def close_over(body: Body, captured: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return the inputs and the outputs of a body in which parameters stand for ``captured`` values, in this order.

    These are all that it captures, and may be more. The nodes that compute them belong to the program around it.
    """
    if not captured:
        return body.parameters, body.outputs
    stand_ins = {}
    for node in captured:
        with recording_at(body.scope, node.code, node.instruction):
            stand_ins[node.uid] = Parameter(node.type, node.label)()
    images = {**stand_ins, **{node.uid: node for node in body.parameters}}
    copies = rebuild([node for node in body.nodes if node.uid not in images], images, lambda node: node.scope)
    inputs = (*body.parameters, *[stand_ins[node.uid] for node in captured])
    return inputs, tuple([copies[node.uid] for node in body.outputs])
