"""The batched form of a function's body: every operation over operands that have a leading axis of members."""

from __future__ import annotations

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr, Scope, make_replacement, record, recording_at
from explorer.core.ir.function import Body, Call, Item, Parameter, call_rules, make_body
from explorer.core.ir.traversal import rescope
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.ops.base import broadcast_to


class NotBatchableError(DeclarationError):
    """An operation has no batching rule for operands like these."""


def batched_type(type_: TensorType, size: int) -> TensorType:
    """The type of ``size`` members of a type."""
    return type_.with_shape((size, *type_.shape))


def batch_body(body: Body, size: int, batched: tuple[bool, ...]) -> Body:
    """The body over ``size`` members; ``batched`` says which of its operands differ between them. Made once.

    Every output has the leading axis. Raises NotBatchableError where an operation has no rule.
    """
    key = ("batch", size, batched)
    held: Body | None = body.derived.get(key)
    if held is None:
        with one_deeper(f"a batch of calls of {body.name}"):
            held = body.derived.setdefault(key, _batch(body, size, batched))
    return held


def _batch(body: Body, size: int, batched: tuple[bool, ...]) -> Body:
    inputs = (*body.parameters, *body.captured)
    inside = Scope(f"{body.name} ×{size}", "batch", None)
    scopes = {id(body.scope): inside}
    made: dict[int, tuple[Expr, bool]] = {}
    parameters = []
    for node, yes in zip(inputs, batched, strict=True):
        type_ = batched_type(node.tensor_type, size) if yes else node.type
        with recording_at(inside, node.code, node.instruction):
            parameter = Parameter(type_, node.operation.label)()
        made[node.uid] = parameter, yes
        parameters.append(parameter)
    for node in body.nodes:
        if node.uid in made:
            continue
        if not node.operation.pure:
            rule = "what an operation does beside computing its value is done for each member"
            raise NotBatchableError(f"{node.operation.label} over members", rule=rule)
        if not node.operands:
            made[node.uid] = node, False
            continue
        operands, flags = zip(*[made[operand.uid] for operand in node.operands], strict=True)
        scope = rescope(node.scope, scopes, inside)
        if not any(flags):
            made[node.uid] = make_replacement(node.operation, operands, node, scope), False
        elif isinstance(node.operation, Item):
            made[node.uid] = make_replacement(node.operation, operands, node, scope), True
        elif node.operation.unbatchable:
            raise NotBatchableError(f"{node.operation.label} over members", rule=node.operation.unbatchable)
        else:
            with recording_at(scope, node.code, node.instruction):
                made[node.uid] = node.operation.batch(size, flags, *operands), True
    outputs = []
    for output in body.outputs:
        node, yes = made[output.uid]
        with recording_at(inside, output.code, output.instruction):
            outputs.append(node if yes else broadcast_to(node, (size, *node.shape)))
    found = make_body(inside.name, tuple(parameters), (), tuple(outputs), inside)
    found.derived["members"] = {uid: node.uid for uid, (node, _) in made.items()}
    return found


def batch_call(call: Call, size: int, batched: tuple[bool, ...], operands: tuple[Expr, ...]) -> Expr:
    """A call inside a batched body: a call of the batched body."""
    body = batch_body(call.body, size, batched)
    result = record(Call(body), operands)
    assert isinstance(result.type, (TensorType, TupleType))
    return result


call_rules.batch = batch_call
