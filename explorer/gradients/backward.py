"""Backward pass: record the gradients of expressions from outputs to inputs (reverse mode).

Because gradients are recorded, not computed, they are planned together with the forward pass and can be differentiated
again. ``ex.grad`` applies the backward pass to expressions, and ``call_gradient`` to function bodies.

The traversal is iterative and visits nodes by descending uid, a reverse topological order. A node is visited after all
its consumers, when all contributions to its gradient are known and can be summed by one operation. An operation's
``gradient`` method also receives the result, because many derivatives are cheaper to compute from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from explorer.core.errors import OperandError, class_text
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item
from explorer.core.ir.hooks import hooks
from explorer.core.ir.recording_context import Scope, scope, single_source_line
from explorer.core.ir.tensor import tensor
from explorer.core.ir.traversal import reachable
from explorer.core.pytree import flatten, unflatten
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.gradients.gradient_scopes import gradient_scopes
from explorer.ops.base import cast, sum_to
from explorer.ops.creation.constants import Zero, full
from explorer.ops.elementwise.arithmetic import add_n
from explorer.record.gc_pause import gc_paused


def backward(
    outputs: Sequence[Expr],
    seeds: Sequence[Expr | None],
    inputs: Sequence[Expr],
    *,
    border: Iterable[Expr] = (),
    within: Scope | None = None,
) -> list[Expr | None]:
    """Record the gradients of Σ seed·output with respect to ``inputs``.

    A gradient is None if no output depends on the input. The program is first rewritten to a numerically stable form
    (plan/stabilise.py). Each gradient is recorded in scopes that mirror its forward node's layer scopes inside
    ``within``.

    Gradients are propagated neither through piecewise constant operations, such as comparisons, nor through the nodes
    in ``border``. It consists of a body's operands, because outside the body, one operand may be computed from another.
    """
    border = [*border]
    outputs, origins = hooks.stabilise(outputs, inputs, border)
    with gradient_scopes(within, origins) as enter_gradient_of:
        return _backward(outputs, seeds, inputs, border, enter_gradient_of)


def _backward(
    outputs: Sequence[Expr],
    seeds: Sequence[Expr | None],
    inputs: Sequence[Expr],
    border: Iterable[Expr],
    enter_gradient_of: Callable[[Expr], None],
) -> list[Expr | None]:
    wanted = {node.uid for node in inputs}
    ends = {node.uid for node in border}
    nodes = reachable(outputs, stop=lambda node: node.uid in ends)
    # find the nodes that depend on the inputs, so that only their gradients are recorded
    for node in nodes:
        operands = node.operands
        if operands and node.uid not in wanted and not wanted.isdisjoint([operand.uid for operand in operands]):
            wanted.add(node.uid)
    gradients: dict[int, Any] = {}
    for output, seed in zip(outputs, seeds, strict=True):
        if seed is not None and output.uid in wanted:
            _add(gradients, output, seed)
    # uids increase from operands to consumers, so each node is visited after all its consumers
    for node in reversed(nodes):
        if node.uid not in gradients or node.uid in ends or not any(operand.uid in wanted for operand in node.operands):
            continue
        operation = node.operation
        enter_gradient_of(node)
        if isinstance(operation, Item):
            _add_part(gradients, node.operands[0], operation.index, _total(gradients[node.uid]))
            continue
        for operand, gradient in zip(node.operands, _operand_gradients(node, gradients[node.uid], wanted), strict=True):
            # operations other than `Call` may return unwanted gradients
            if gradient is not None and operand.uid in wanted and _has_gradient(operand):
                _add(gradients, operand, _fit(gradient, operand, operation.elementwise))
    totals: list[Expr | None] = []
    for node in inputs:
        enter_gradient_of(node)
        totals.append(_total(gradients[node.uid]) if node.uid in gradients else None)
    return totals


def _operand_gradients(node: Expr, upstream: Any, wanted: Collection[int]) -> Sequence[Expr | None]:
    operation = node.operation
    if operation.nondifferentiable:
        if operation.refuses_gradient:
            raise OperandError(
                f"the gradient of {operation.name}",
                rule=operation.nondifferentiable,
                fix="use ex.stop_gradient if this value needs no gradient",
            )
        return [None] * len(node.operands)
    if isinstance(node.type, TupleType):
        upstream = [None if part is None else _total(part) for part in upstream]
    else:
        upstream = _total(upstream)
    if isinstance(operation, Call):  # calls skip unwanted gradients inside their body, too
        requested = tuple([operand.uid in wanted for operand in node.operands])
        return operation.wanted_gradients(upstream, node, node.operands, requested)
    return operation.gradient(upstream, node, *node.operands)


def _has_gradient(node: Expr) -> bool:
    if isinstance(node.type, TupleType):
        return True
    if node.type.dtype.kind == "c":
        raise OperandError(
            f"a gradient through {node!r}",
            rule="values between wrt and the loss must be real, not complex",
            fix="compute with the real and the imaginary part as two real values",
        )
    return is_floating(node.type.dtype)


def _fit(gradient: Expr, operand: Expr, elementwise: bool) -> Expr:
    """Sum ``gradient`` over the axes along which ``operand`` was broadcast, and convert it to the operand's dtype."""
    # fast path; equal types are identical
    if gradient.type is operand.type:
        return gradient
    if elementwise and gradient.shape != operand.shape:
        gradient = sum_to(gradient, operand.shape)
    if gradient.shape != operand.shape:
        raise OperandError(
            f"a gradient of shape {gradient.shape} for {operand!r}",
            rule="a gradient must have its operand's shape",
            fix="check the operation's gradient() method",
        )
    # the gradients of float32 · float64 are float64, but must have each operand's dtype
    return cast(gradient, operand.dtype)


_Container = TypeVar("_Container")


def _add(gradients: dict[int, Any], node: Expr, gradient: Expr) -> None:
    gradients.setdefault(node.uid, []).append(gradient)


def _add_part(gradients: dict[int, Any], node: Expr, index: int, gradient: Expr) -> None:
    assert isinstance(node.type, TupleType)
    # if the node has several outputs: for each output, the parts of its gradient, or None if it has no gradient
    parts = gradients.setdefault(node.uid, [None] * len(node.type.parts))
    parts[index] = [*(parts[index] or []), gradient]


def _total(parts: list[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else add_n(*parts)


@overload
def grad(loss: Expr, wrt: Expr, *, seed: Any = None) -> Expr: ...


@overload
def grad(loss: Expr, wrt: _Container, *, seed: Any = None) -> _Container: ...


@public
def grad(loss: Expr, wrt: Any, *, seed: Any = None) -> Any:
    """Record the gradients of ``loss`` with respect to ``wrt``, an expression or a nested container of expressions.

    Returns the same structure as ``wrt``; each gradient has the shape and dtype of its expression. If ``seed`` is None,
    ``loss`` must be a scalar; otherwise ``seed`` is the upstream gradient and has the loss's shape. If the loss does
    not depend on an expression, its gradient is a symbolic zero, which the plan reports. Raises OperandError if the
    loss or an expression does not have a real floating dtype, or if a gradient is undefined.

    >>> w, x = ex.tensor([1.0, 2.0], name="w"), ex.tensor([3.0, 4.0], name="x")
    >>> dw, dx = ex.grad((w * x).sum(), [w, x])
    >>> ex.evaluate([dw, dx])
    [array([3., 4.]), array([1., 2.])]
    """
    inputs, structure = flatten(wrt)
    if not inputs or not all(isinstance(node, Expr) for node in inputs):
        raise OperandError(
            "ex.grad with a wrt that is not an expression",
            rule="wrt must be an expression, or a container of expressions",
            fix="ex.grad(loss, wrt=[w, b]) with expressions w and b from which the loss was recorded",
        )
    if not isinstance(loss, Expr):
        raise OperandError(
            f"ex.grad of {class_text(loss)}",
            rule="the loss must be one expression",
            fix="ex.grad(function(x), [x])"
            if callable(loss)
            else "ex.grad(loss, wrt), or ex.grad(loss_1 + loss_2, wrt) for several losses",
        )
    if not is_floating(loss.dtype):
        raise OperandError(
            f"ex.grad of {loss.type}",
            rule="the loss must have a real floating dtype",
            fix="convert it: loss.astype(float)",
        )
    if seed is None and loss.shape:
        raise OperandError(
            f"ex.grad of {loss.type} without a seed",
            rule="the loss must be a scalar, or a seed of its shape must be given",
            fix="reduce it first (loss.sum()), or pass seed=…",
        )
    for node in inputs:
        if not is_floating(node.dtype):
            raise OperandError(
                f"ex.grad for {node!r}",
                rule="wrt must have a real floating dtype",
                fix="create it with a floating dtype: ex.tensor(x, dtype=np.float32)",
            )
    # the whole backward pass belongs to the line that calls ex.grad, so look the line up only once
    with gc_paused(), single_source_line(), scope("gradient", "gradient"):
        start = full((), 1.0, loss.dtype, loss.device) if seed is None else _seed(seed, loss.tensor_type)
        gradients = backward([loss], [start], inputs)
        return unflatten(
            structure,
            [
                Zero(node.shape, np.dtype(node.dtype), "unreached", node.device)() if gradient is None else gradient
                for node, gradient in zip(inputs, gradients, strict=True)
            ],
        )


def _seed(seed: Any, type_: TensorType) -> Expr:
    node = (
        seed
        if isinstance(seed, Expr)
        else full((), seed, type_.dtype, type_.device)
        if np.ndim(seed) == 0
        else cast(tensor(seed, device=type_.device), type_.dtype)
    )
    if node.shape != type_.shape:
        raise OperandError(
            f"a seed of shape {node.shape} for {type_}",
            rule="the seed must have the loss's shape",
            fix="seed=np.ones(loss.shape)",
        )
    return node
