"""Gradients of calls, recorded as calls of two bodies derived once from the function's body.

The *augmented* body returns the outputs and the residuals, the forward values that the backward pass needs. The *vjp*
body computes the gradients of the inputs from inputs, residuals and upstream gradients. Inlining the body in each
gradient instead would record it again for every call, and lose the function's boxes.

The gradient of a mapped call is a mapped call of the vjp body. If all batch elements share an operand, its gradients
are summed. *Invariants* are values that the body computes from shared operands only, such as a transposed weight. The
body is split before it is differentiated, so that gradients are summed over the batch before they are propagated
through the invariants. The batch then needs one product instead of one per element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.core.ir.expr import Expr, record, record_typed
from explorer.core.ir.function import Body, Call, Item, Parameter, item, make_body
from explorer.core.ir.hooks import hooks
from explorer.core.ir.mapped_call import MappedCall, call_like
from explorer.core.ir.policy_operations import under
from explorer.core.ir.recording_context import Scope, recording_at, scope, state
from explorer.core.ir.traversal import reachable, rebuild, rescope
from explorer.core.pytree import flatten
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import TupleType
from explorer.gradients.backward import backward
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.reduction.reduce import Sum


@dataclass(frozen=True, slots=True)
class Differentiated:
    """Augmented body and vjp body derived from a body, with the indices of their operands and outputs."""

    augmented: Call
    """call of the augmented body, which is the original body if the vjp body needs only its outputs"""
    residuals: tuple[int, ...]
    """for each residual operand of the vjp body, its output index in the augmented body"""
    vjp: Call | None
    inputs: tuple[int, ...]
    """indices of the call's operands that the vjp body also takes"""
    gradients: tuple[int | None, ...]
    """for each operand, the index of its gradient among the vjp body's outputs, or None if it has no gradient"""


def differentiate(body: Body, seeded: tuple[bool, ...], wanted: tuple[bool, ...]) -> Differentiated:
    """Return the bodies that compute gradients of ``body``.

    ``seeded`` states which outputs have an upstream gradient, and ``wanted`` which operands need a gradient. The bodies
    are cached for each combination.
    """
    policies = {**state.policies, **body.policies}
    # the backward pass depends on the policies, so the key includes them
    key = "gradient", seeded, wanted, frozenset(policies.values())
    differentiated: Differentiated | None = body.derived.get(key)
    if differentiated is None:
        with under(policies), one_deeper(f"a gradient of {body.name}"):
            differentiated = body.derived.setdefault(key, _differentiate(body, seeded, wanted))
    return differentiated


def _differentiate(body: Body, seeded: tuple[bool, ...], wanted: tuple[bool, ...]) -> Differentiated:
    inputs = (*body.parameters, *body.captured)
    outputs = hooks.stabilise(body.outputs, inputs, inputs)[0]
    if any(
        new is not old for new, old in zip(outputs, body.outputs, strict=True)
    ):  # the residuals are nodes of the stable form, so that form also replaces the forward pass
        stable = make_body(body.name, body.parameters, body.captured, outputs, body.scope, body.structure)
        stable.derived.update({key: body.derived[key] for key in ("structure",) if key in body.derived})
        body = stable
    inside, seeds, by_input = _backward_inside(body, inputs, seeded, wanted)
    # operands may share a gradient, as in a sum; it is then a single output of the vjp body
    gradients = list({node.uid: node for node in by_input if node is not None}.values())
    # only the forward values that the gradients read, because residuals stay in memory until the backward pass
    nodes, residuals = _residuals(body, gradients, borders={node.uid for node in (*inputs, *seeds)})
    reached = {node.uid for node in nodes}
    used = [index for index, node in enumerate(inputs) if node.uid in reached]
    augmented, positions = _augmented(body, residuals)
    first = body.outputs[0]
    with recording_at(inside, first.code, first.instruction):  # attribute the body to the function's first line
        parameter_of = {inputs[i].uid: _parameter_for(inputs[i]) for i in used}
        parameters = [*parameter_of.values()]
        for same in residuals.values():
            parameters.append(_parameter_for(same[0]))
            parameter_of.update({node.uid: parameters[-1] for node in same})
    new_scopes = {id(inside): inside, **({id(body.scope): inside} if body.scope is not None else {})}
    fixed = {**parameter_of, **{seed.uid: seed for seed in seeds}}
    # the gradients were recorded with the body's own nodes, which parameters replace in the copy
    copies = rebuild(nodes, fixed, lambda node: rescope(node.scope, new_scopes, inside))
    vjp = None
    if gradients:
        outputs = tuple([copies[node.uid] for node in gradients])
        vjp = Call(make_body(inside.name, (*parameters, *seeds), (), outputs, inside))
    order_of = {node.uid: index for index, node in enumerate(gradients)}
    return Differentiated(
        Call(augmented),
        tuple(positions),
        vjp,
        tuple(used),
        tuple([None if node is None else order_of[node.uid] for node in by_input]),
    )


def _backward_inside(
    body: Body, inputs: tuple[Expr, ...], seeded: tuple[bool, ...], wanted: tuple[bool, ...]
) -> tuple[Scope, list[Expr], list[Expr | None]]:
    """Record the gradients of a body's inputs on its own nodes; return their scope, the seeds and the gradients."""
    requested = [node for node, is_used in zip(inputs, wanted, strict=True) if is_used]
    first = body.outputs[0]
    scope_kind = "layer" if body.scope is not None and body.scope.kind == "layer" else "function"
    with recording_at(None, first.code, first.instruction), scope(f"{body.name} gradient", scope_kind) as inside:
        seeds = [
            Parameter(output.type, f"g{index}")() if is_used else None
            for index, (output, is_used) in enumerate(zip(body.outputs, seeded, strict=True))
        ]
        gradients = backward(body.outputs, seeds, requested, border=inputs, within=body.scope)
    by_uid = {node.uid: gradient for node, gradient in zip(requested, gradients, strict=True)}
    return inside, [seed for seed in seeds if seed is not None], [by_uid.get(node.uid) for node in inputs]


def _residuals(
    body: Body, gradients: Sequence[Expr], borders: set[int]
) -> tuple[Sequence[Expr], dict[tuple[int, int], list[Expr]]]:
    """Return the nodes that compute ``gradients``, and the residuals, which are the forward values that they read.

    Several Items that read the same output of an inner call are one residual.
    """
    forward = {node.uid for node in body.nodes}

    def is_residual(node: Expr) -> bool:
        value, _ = _value(node)
        return value in forward and bool(node.operands) and node.uid not in borders

    nodes = reachable(gradients, stop=lambda node: node.uid in borders or is_residual(node))
    residuals: dict[tuple[int, int], list[Expr]] = {}
    for node in filter(is_residual, nodes):
        residuals.setdefault(_value(node), []).append(node)
    return nodes, residuals


def _augmented(body: Body, residuals: Mapping[tuple[int, int], Sequence[Expr]]) -> tuple[Body, list[int]]:
    """Return a body that also returns the residuals, and their output indices.

    The body itself is returned if its outputs already contain all residuals.
    """
    outputs = list(body.outputs)
    # reversed, so that the dict keeps the first index of equal outputs
    output_indices = {_value(output): index for index, output in reversed([*enumerate(outputs)])}
    for value, (node, *_) in residuals.items():
        if output_indices.setdefault(value, len(outputs)) == len(outputs):
            outputs.append(node)
    augmented = body
    if len(outputs) > len(body.outputs):
        structure = flatten(tuple(outputs))[1]
        augmented = make_body(body.name, body.parameters, body.captured, tuple(outputs), body.scope, structure)
        augmented.derived["structure"] = body.structure
    return augmented, [output_indices[value] for value in residuals]


def _value(node: Expr) -> tuple[int, int]:
    """Return a key for a node's value: the node's uid and −1, or for an Item the call's uid and the output index."""
    operation = node.operation
    return (node.operands[0].uid, operation.index) if isinstance(operation, Item) else (node.uid, -1)


def _parameter_for(node: Expr) -> Expr:
    return Parameter(node.type, node.operation.label)()


def call_gradient(
    call: Call,
    upstream: Expr | Sequence[Expr | None],
    result: Expr,
    operands: tuple[Expr, ...],
    wanted: tuple[bool, ...] | None = None,
) -> list[Expr | None]:
    """Record the gradients of a call's operands, including captured values; None for operands not ``wanted``."""
    if isinstance(call, MappedCall) and (parts := _split_invariants(call.body, call.batched)) is not None:
        return _split_gradient(call, *parts, upstream, result, operands, wanted)
    seeds = [upstream] if isinstance(upstream, Expr) else list(upstream)
    seeded = tuple([seed is not None for seed in seeds])
    differentiated = differentiate(call.body, seeded, (True,) * len(operands) if wanted is None else wanted)
    if differentiated.vjp is None:
        return [None] * len(operands)
    residuals: list[Expr] = []
    if differentiated.residuals:
        is_plain = differentiated.augmented.body is call.body
        augmented = call_like(call, differentiated.augmented.body)
        # record a second call in the scope of the first one; the pass dedup later redirects the first call's consumers
        # to it
        forward = result if is_plain else _record_at(result, augmented, operands)
        residuals = [_output(forward, index) for index in differentiated.residuals]
    vjp_operands = (
        *[operands[i] for i in differentiated.inputs],
        *residuals,
        *[seed for seed in seeds if seed is not None],
    )
    if not isinstance(call, MappedCall):
        gradients = record(differentiated.vjp, vjp_operands)
        # one call returns all gradients as separate outputs
        return [None if index is None else _output(gradients, index) for index in differentiated.gradients]
    rows = [call.batched[i] for i in differentiated.inputs]
    # residuals and seeds have one row per batch element; only operands may be shared
    rows += [True] * (len(vjp_operands) - len(rows))
    gradients = record(call_like(call, differentiated.vjp.body, tuple(rows)), vjp_operands)
    return [
        None if index is None else _output(gradients, index) if is_batched else Sum((0,))(_output(gradients, index))
        for index, is_batched in zip(differentiated.gradients, call.batched, strict=True)
    ]


def _split_gradient(
    call: MappedCall,
    invariant: Body,
    member: Body,
    upstream: Expr | Sequence[Expr | None],
    result: Expr,
    operands: tuple[Expr, ...],
    wanted: tuple[bool, ...] | None,
) -> list[Expr | None]:
    """Record a mapped call's gradients as the gradients of two calls, one of the ``invariant`` and one of the
    ``member`` body.

    The gradients of invariants are summed over the batch before they are propagated further, because a sum of matrix
    products is a single matrix product, but a sum of transposed products is not.
    """
    wanted = (True,) * len(operands) if wanted is None else wanted
    values = record(Call(invariant), operands)
    outputs = [_output(values, index) for index in range(len(invariant.outputs))]
    rows = (*call.batched, *[False] * len(outputs))
    inner = (*wanted, *[is_floating(output.dtype) for output in outputs])
    mapped = MappedCall(member, call.size, rows)
    direct = call_gradient(mapped, upstream, result, (*operands, *outputs), inner)
    gradients, seeds = direct[: len(operands)], direct[len(operands) :]
    if all(seed is None for seed in seeds):
        return gradients
    through = call_gradient(Call(invariant), seeds, values, operands, wanted)
    parts = [[part for part in both if part is not None] for both in zip(gradients, through, strict=True)]
    return [add_n(*both) if len(both) > 1 else both[0] if both else None for both in parts]


def _record_at(result: Expr, operation: Call, operands: tuple[Expr, ...]) -> Expr:
    scope, origin = state.scope, state.origin
    state.scope, state.origin = result.scope, (result.code, result.instruction)
    try:
        return record(operation, operands)
    finally:
        state.scope, state.origin = scope, origin


def _output(value: Expr, index: int) -> Expr:
    type_ = value.type
    return record_typed(item(index), type_.parts[index], (value,)) if isinstance(type_, TupleType) else value


def _split_invariants(body: Body, batched: tuple[bool, ...]) -> tuple[Body, Body] | None:
    """Return two bodies that together compute a mapped call's ``body``, or None if the body has no invariants.

    The first body returns the invariants that other nodes read. The second takes the mapped call's operands, followed
    by the invariants. The bodies are cached for each combination of ``batched`` operands.
    """
    key = "invariants", batched
    if key not in body.derived:
        body.derived.setdefault(key, _split_body(body, batched))
    parts: tuple[Body, Body] | None = body.derived[key]
    return parts


def _split_body(body: Body, batched: tuple[bool, ...]) -> tuple[Body, Body] | None:
    inputs = (*body.parameters, *body.captured)
    varying = {node.uid for node, is_batched in zip(inputs, batched, strict=True) if is_batched}
    borders = {node.uid for node in inputs}
    inside: dict[int, Expr] = {}
    read: dict[int, Expr] = {}
    """invariants that other nodes read, or that are outputs"""
    for node in body.nodes:
        if node.uid in borders or not node.operands:
            continue
        # impure operations are not moved, because they must run once per batch element
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
        copies = [{node.uid: Parameter(node.type, node.operation.label)() for node in inputs} for _ in range(2)]
        parameter_of = {node.uid: Parameter(node.type, node.operation.label)() for node in read.values()}
    before = rebuild(inside.values(), copies[0], lambda node: node.scope)
    rest = [node for node in body.nodes if node.uid not in borders and node.uid not in inside]
    after = rebuild(rest, {**copies[1], **parameter_of}, lambda node: node.scope)
    parameters = [tuple([images[node.uid] for node in inputs]) for images in copies]
    return (
        make_body(body.name, parameters[0], (), tuple([before[uid] for uid in read]), body.scope),
        make_body(
            body.name,
            (*parameters[1], *parameter_of.values()),
            (),
            tuple([after[node.uid] for node in body.outputs]),
            body.scope,
            body.structure,
        ),
    )
