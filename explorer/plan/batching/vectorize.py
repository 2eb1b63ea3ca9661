"""Vectorized bodies: bodies of functions, applied to operands with a leading batch axis.

The `batch` method of an operation defines how it computes all batch elements at once, as in jax.vmap. Operands that all
elements share are unchanged. A vectorized body consists of expressions again, so later passes simplify, merge and fuse
it like any other program.
"""

from __future__ import annotations

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr, make_replacement, record
from explorer.core.ir.function import Body, Call, Item, Parameter, item, make_body
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.ir.recording_context import Scope, recording_at, state
from explorer.core.ir.traversal import rescope
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.ops.base import broadcast_to
from explorer.ops.manipulation.reshape import Transpose


class NotBatchableError(DeclarationError):
    """Raised if an operation has no batching rule for its operands."""


def batched_type(type_: TensorType, size: int) -> TensorType:
    """Return ``type_`` with an additional leading axis of ``size``: the shape (n, …) becomes (size, n, …)."""
    return type_.with_shape((size, *type_.shape))


def batch_body(body: Body, size: int, batched: tuple[bool, ...]) -> Body:
    """Return ``body`` vectorized over ``size`` batch elements.

    ``batched`` states which operands differ between elements. The result is cached in the body. Every output has the
    leading axis. Raises NotBatchableError if an operation cannot be batched.
    """
    key = ("batch", size, batched)
    cached: Body | None = body.derived.get(key)
    if cached is None:
        with one_deeper(f"a batch of calls of {body.name}"):
            # Use setdefault: if two threads vectorize a body concurrently, both use the first result.
            cached = body.derived.setdefault(key, _batch(body, size, batched))
    return cached


def _batch(body: Body, size: int, batched: tuple[bool, ...]) -> Body:
    """Record the vectorized body.

    ``images`` maps the uid of each node to (the node that replaces it, whether this node has the batch axis).
    """
    inputs = (*body.parameters, *body.captured)
    batch_scope = Scope(f"{body.name} ×{size}", "batch", None)
    scopes = {id(body.scope): batch_scope}
    images: dict[int, tuple[Expr, bool]] = {}
    parameters = []
    for node, is_batched in zip(inputs, batched, strict=True):
        type_ = batched_type(node.tensor_type, size) if is_batched else node.type
        with recording_at(batch_scope, node.code, node.instruction):
            parameter = Parameter(type_, node.operation.label)()
        images[node.uid] = parameter, is_batched
        parameters.append(parameter)
    for node in body.nodes:
        if node.uid in images:
            continue
        if not node.operation.pure:
            rule = "it does more than compute a value, once for each call"
            raise NotBatchableError(node.operation.label, rule=rule)
        # Nodes without operands are the same for all batch elements.
        if not node.operands:
            images[node.uid] = node, False
            continue
        operands, flags = zip(*[images[operand.uid] for operand in node.operands], strict=True)
        scope = rescope(node.scope, scopes, batch_scope)
        if not any(flags):
            images[node.uid] = make_replacement(node.operation, operands, node, scope), False
        elif isinstance(node.operation, Item):
            images[node.uid] = make_replacement(node.operation, operands, node, scope), True
        elif node.operation.unbatchable:
            raise NotBatchableError(node.operation.label, rule=node.operation.unbatchable)
        else:
            with recording_at(scope, node.code, node.instruction):
                images[node.uid] = node.operation.batch(size, flags, *operands), True
    outputs = []
    for output in body.outputs:
        node, is_batched = images[output.uid]
        with recording_at(batch_scope, output.code, output.instruction):
            # if an output depends on no batched operand, all batch elements have the same row
            outputs.append(node if is_batched else broadcast_to(node, (size, *node.shape)))
    vectorized = make_body(batch_scope.name, tuple(parameters), (), tuple(outputs), batch_scope)
    # With this table, a recording finds the node of the vectorized body that computes a given node of the function.
    vectorized.derived["members"] = {uid: node.uid for uid, (node, _) in images.items()}
    return vectorized


def batch_call(call: Call, size: int, batched: tuple[bool, ...], operands: tuple[Expr, ...]) -> Expr:
    """Record ``call`` inside a vectorized body, as a call of its own vectorized body."""
    if isinstance(call, MappedCall):
        return _batch_mapped(call, size, batched, operands)
    body = batch_body(call.body, size, batched)
    result = record(Call(body), operands)
    assert isinstance(result.type, (TensorType, TupleType))
    return result


def _batch_mapped(call: MappedCall, size: int, batched: tuple[bool, ...], operands: tuple[Expr, ...]) -> Expr:
    """Record a mapped call inside a vectorized body, as a mapped call of its own vectorized body.

    The mapped axis must stay the first axis of the operands. The outer batch axis is therefore moved to the second
    position, and moved back to the front in the results.
    """
    body = batch_body(call.body, size, batched)
    batch_scope = Scope(call.label, "batch", state.scope)
    with recording_at(batch_scope, *(state.origin or (None, 0))):
        parameters = tuple([Parameter(node.type, f"x{index}")() for index, node in enumerate(operands)])
        swapped = [
            _swapped(node) if is_batched and has_rows else node
            for node, is_batched, has_rows in zip(parameters, batched, call.batched, strict=True)
        ]
        result = record(MappedCall(body, call.size, call.batched), tuple(swapped))
        parts = result.type.parts if isinstance(result.type, TupleType) else ()
        outputs = [_swapped(record(item(index), (result,))) for index in range(len(parts))] or [_swapped(result)]
        body_of_call = make_body(call.label, parameters, (), tuple(outputs), batch_scope)
    return record(Call(body_of_call), operands)


def _swapped(node: Expr) -> Expr:
    return Transpose((1, 0, *range(2, node.ndim)))(node)
