"""The gradient of a call: two functions made from its body once, and two calls recorded for each use.

The *augmented* body gives the outputs and the residuals, which are what the backward pass needs of the forward one;
the *vjp* body takes inputs, residuals and upstream gradients, and gives the gradients of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.core.ir.expr import Expr, record, record_typed, recording_at, scope, state
from explorer.core.ir.function import Body, Call, Item, Parameter, item, make_body
from explorer.core.ir.policy_operations import under
from explorer.core.ir.traversal import reachable, rebuild, rescope
from explorer.core.pytree import flatten
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.tensor_type import TupleType
from explorer.grad.backward import backward


@dataclass(frozen=True, slots=True)
class Differentiated:
    """What differentiating a body gave."""

    augmented: Call
    """the call itself where its outputs are all that the vjp body takes"""
    residuals: tuple[int, ...]
    """outputs of the augmented body that the vjp body takes"""
    vjp: Call | None
    inputs: tuple[int, ...]
    """operands of the call that the vjp body takes"""
    gradients: tuple[int | None, ...]
    """for each operand the output of the vjp body that is its gradient"""


def differentiate(body: Body, seeded: tuple[bool, ...], wanted: tuple[bool, ...]) -> Differentiated:
    """The augmented and the vjp body for upstream gradients of the outputs ``seeded``, and of the operands ``wanted``.

    Made once.
    """
    around = {**state.policies, **body.policies}
    key = "gradient", seeded, wanted, frozenset(around.values())
    held: Differentiated | None = body.derived.get(key)
    if held is None:
        with under(around), one_deeper(f"a gradient of {body.name}"):
            held = body.derived.setdefault(key, _differentiate(body, seeded, wanted))
    return held


def _differentiate(body: Body, seeded: tuple[bool, ...], wanted: tuple[bool, ...]) -> Differentiated:
    inputs = (*body.parameters, *body.captured)
    asked = [node for node, yes in zip(inputs, wanted, strict=True) if yes]
    first = body.outputs[0]
    kind = "layer" if body.scope is not None and body.scope.kind == "layer" else "function"
    with recording_at(None, first.code, first.instruction), scope(f"{body.name} gradient", kind) as inside:
        seeds = [
            Parameter(output.type, f"g{index}")() if yes else None
            for index, (output, yes) in enumerate(zip(body.outputs, seeded, strict=True))
        ]
        by_uid = {
            node.uid: gradient
            for node, gradient in zip(
                asked, backward(body.outputs, seeds, asked, border=inputs, within=body.scope), strict=True
            )
        }
    found = [by_uid.get(node.uid) for node in inputs]
    given = [seed for seed in seeds if seed is not None]
    forward = {node.uid for node in body.nodes}
    borders = {node.uid for node in (*inputs, *given)}

    def is_residual(node: Expr) -> bool:
        value, _ = _value(node)  # of a call inside this one the outputs, each by itself
        return value in forward and bool(node.operands) and node.uid not in borders

    gradients = [node for node in found if node is not None]
    nodes = reachable(gradients, stop=lambda node: node.uid in borders or is_residual(node))
    reached = {node.uid for node in nodes}
    used = [index for index, node in enumerate(inputs) if node.uid in reached]
    residuals: dict[tuple[int, int], list[Expr]] = {}
    for node in filter(is_residual, nodes):
        residuals.setdefault(_value(node), []).append(node)
    outputs = list(body.outputs)
    numbers = {_value(output): index for index, output in reversed([*enumerate(outputs)])}
    for value, (node, *_) in residuals.items():
        if numbers.setdefault(value, len(outputs)) == len(outputs):
            outputs.append(node)
    places = [numbers[value] for value in residuals]
    augmented = body
    if len(outputs) > len(body.outputs):
        structure = flatten(tuple(outputs))[1]
        augmented = make_body(body.name, body.parameters, body.captured, tuple(outputs), body.scope, structure)
        augmented.derived["structure"] = body.structure
    with recording_at(inside, first.code, first.instruction):  # not where the first gradient happened to be taken
        stand_ins = {inputs[i].uid: _stand_in(inputs[i]) for i in used}
        parameters = [*stand_ins.values()]
        for same in residuals.values():
            parameters.append(_stand_in(same[0]))
            stand_ins.update({node.uid: parameters[-1] for node in same})
    boxes = {id(inside): inside, **({id(body.scope): inside} if body.scope is not None else {})}
    fixed = {**stand_ins, **{seed.uid: seed for seed in given}}
    made = rebuild(nodes, fixed, lambda node: rescope(node.scope, boxes, inside))
    vjp = None
    order = list({node.uid: node for node in gradients}.values())
    if gradients:
        taken = (*parameters, *given)
        vjp = Call(make_body(inside.name, taken, (), tuple([made[node.uid] for node in order]), inside))
    order_of = {node.uid: index for index, node in enumerate(order)}
    return Differentiated(
        Call(augmented),
        tuple(places),
        vjp,
        tuple(used),
        tuple([None if node is None else order_of[node.uid] for node in found]),
    )


def _value(node: Expr) -> tuple[int, int]:
    """What a node's value is told by: its uid, or that of the call and the number of the output that it reads."""
    operation = node.operation
    return (node.operands[0].uid, operation.index) if isinstance(operation, Item) else (node.uid, -1)


def _stand_in(node: Expr) -> Expr:
    return Parameter(node.type, node.operation.label)()


def call_gradient(
    call: Call,
    upstream: Expr | Sequence[Expr | None],
    result: Expr,
    operands: tuple[Expr, ...],
    wanted: tuple[bool, ...] | None = None,
) -> list[Expr | None]:
    """The gradients of a call's operands, hidden ones included; of all, or None for those that are not ``wanted``."""
    seeds = [upstream] if isinstance(upstream, Expr) else list(upstream)
    seeded = tuple([seed is not None for seed in seeds])
    made = differentiate(call.body, seeded, (True,) * len(operands) if wanted is None else wanted)
    if made.vjp is None:
        return [None] * len(operands)
    residuals: list[Expr] = []
    if made.residuals:
        forward = result if made.augmented is call else _recorded_beside(result, made.augmented, operands)
        residuals = [_output(forward, index) for index in made.residuals]
    given = (*[operands[i] for i in made.inputs], *residuals, *[seed for seed in seeds if seed is not None])
    gradients = record(made.vjp, given)
    return [None if index is None else _output(gradients, index) for index in made.gradients]


def _recorded_beside(result: Expr, operation: Call, operands: tuple[Expr, ...]) -> Expr:
    """A call in the place of another one."""
    scope, origin = state.scope, state.origin
    state.scope, state.origin = result.scope, (result.code, result.instruction)
    try:
        return record(operation, operands)
    finally:
        state.scope, state.origin = scope, origin


def _output(value: Expr, index: int) -> Expr:
    """One output of a call."""
    type_ = value.type
    return record_typed(item(index), type_.parts[index], (value,)) if isinstance(type_, TupleType) else value
