"""Invariants of mapped calls: values of their body that depend on no member, and so are the same for all of them.

Weights that are transposed or cast inside ``ex.map`` are the usual case. `call_gradient` splits a body here before it
differentiates it, so that gradients are summed over the members before they go through such values, and not after: one
product then takes the place of as many as there are members.
"""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Parameter, make_body
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.traversal import rebuild


def split_invariants(body: Body, batched: tuple[bool, ...]) -> tuple[Body, Body] | None:
    """Return two bodies that compute a mapped body one after the other; None where no value is an invariant.

    The first one takes its operands and returns the invariants that the rest reads. The second one takes the operands
    and these. Made once for each combination of ``batched`` operands.
    """
    key = "invariants", batched
    if key not in body.derived:
        body.derived.setdefault(key, _split(body, batched))
    parts: tuple[Body, Body] | None = body.derived[key]
    return parts


def _split(body: Body, batched: tuple[bool, ...]) -> tuple[Body, Body] | None:
    inputs = (*body.parameters, *body.captured)
    varying = {node.uid for node, is_batched in zip(inputs, batched, strict=True) if is_batched}
    borders = {node.uid for node in inputs}
    inside: dict[int, Expr] = {}
    read: dict[int, Expr] = {}
    """invariants that other nodes read, or that are results"""
    for node in body.nodes:
        if node.uid in borders or not node.operands:
            continue
        # An operation with a side effect is not moved: it takes place once for each member.
        if node.operation.pure and not any(operand.uid in varying for operand in node.operands):
            inside[node.uid] = node
            continue
        varying.add(node.uid)
        read.update({operand.uid: operand for operand in node.operands if operand.uid in inside})
    read.update({node.uid: node for node in body.outputs if node.uid in inside})
    if not read:
        return None
    first = body.outputs[0]
    with recording_at(body.scope, first.code, first.instruction):
        # A body's own nodes are parameters to it: each part has its own.
        copies = [{node.uid: Parameter(node.type, node.operation.label)() for node in inputs} for _ in range(2)]
        stand_ins = {node.uid: Parameter(node.type, node.operation.label)() for node in read.values()}
    before = rebuild(inside.values(), copies[0], lambda node: node.scope)
    rest = [node for node in body.nodes if node.uid not in borders and node.uid not in inside]
    after = rebuild(rest, {**copies[1], **stand_ins}, lambda node: node.scope)
    parameters = [tuple([images[node.uid] for node in inputs]) for images in copies]
    return (
        make_body(body.name, parameters[0], (), tuple([before[uid] for uid in read]), body.scope),
        make_body(
            body.name,
            (*parameters[1], *stand_ins.values()),
            (),
            tuple([after[node.uid] for node in body.outputs]),
            body.scope,
            body.structure,
        ),
    )
