"""Backward pass: one gradient expression for each node that a gradient reaches, from the outputs to the inputs.

Gradients are recorded, not computed, so that they are planned with the forward pass and can be differentiated again.
``ex.grad`` calls it for expressions, ``call_gradient`` for the bodies of functions; the walk is iterative and visits
nodes in the order of their uids, which is topological.

Reverse mode: Σ seed · output is differentiated once for all inputs. A node is visited after all its readers, so that
its parts are complete, and are summed by one operation. A node's ``gradient`` gets its result too, because many
derivatives are cheaper by it.
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
    """Record the gradients of Σ seed·output for the inputs, None where no output depends on one.

    The program is differentiated in stable form (plan/stabilise.py).

    An operation that is constant wherever it has a derivative (a comparison, say) stops the gradient. So does the
    ``border``: a body's operands, one of which may have been computed from another outside the body. Each gradient is
    recorded in scopes like those of its forward node's layers, inside ``within``.
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
    # forwards first: nodes on a path from an input; gradients of others are not recorded at all
    for node in nodes:
        if node.uid not in wanted and any(operand.uid in wanted for operand in node.operands):
            wanted.add(node.uid)
    gradients: dict[int, Any] = {}
    for output, seed in zip(outputs, seeds, strict=True):
        if seed is not None and output.uid in wanted:
            _add(gradients, output, seed)
    # uids grow from operands to readers, so that backwards all parts of a node's gradient are there when it is reached.
    for node in reversed(nodes):
        if node.uid not in gradients or node.uid in ends or not any(operand.uid in wanted for operand in node.operands):
            continue
        operation = node.operation
        enter_gradient_of(node)
        if isinstance(operation, Item):
            _add_part(gradients, node.operands[0], operation.index, _total(gradients[node.uid]))
            continue
        for operand, gradient in zip(node.operands, _of_operands(node, gradients[node.uid], wanted), strict=True):
            # An operation may return more gradients than are asked for; only `Call` is told which.
            if gradient is not None and operand.uid in wanted and _has_gradient(operand):
                _add(gradients, operand, _fit(gradient, operand, operation.elementwise))
    totals: list[Expr | None] = []
    for node in inputs:
        enter_gradient_of(node)
        totals.append(_total(gradients[node.uid]) if node.uid in gradients else None)
    return totals


def _of_operands(node: Expr, upstream: Any, wanted: Collection[int]) -> Sequence[Expr | None]:
    """Return the gradients of a node's operands from the parts of its own."""
    operation = node.operation
    if operation.nondifferentiable:
        if operation.refuses_gradient:
            raise OperandError(
                f"the gradient of {operation.name}",
                rule=operation.nondifferentiable,
                fix="ex.stop_gradient of the value, if no gradient has to go this way",
            )
        return [None] * len(node.operands)
    if isinstance(node.type, TupleType):
        upstream = [None if part is None else _total(part) for part in upstream]
    else:
        upstream = _total(upstream)
    if isinstance(operation, Call):  # unwanted gradients are not built inside the body
        asked = tuple([operand.uid in wanted for operand in node.operands])
        return operation.wanted_gradients(upstream, node, node.operands, asked)
    return operation.gradient(upstream, node, *node.operands)


def _has_gradient(node: Expr) -> bool:
    if isinstance(node.type, TupleType):
        return True
    if node.type.dtype.kind == "c":
        raise OperandError(
            f"a gradient through {node!r}",
            rule="values on the way to the loss must be real, not complex",
            fix="compute with two real values, the real part and the imaginary one",
        )
    return is_floating(node.type.dtype)


def _fit(gradient: Expr, operand: Expr, elementwise: bool) -> Expr:
    """Reduce a gradient to its operand's shape and dtype: broadcast axes are summed."""
    # The usual case, and types are interned: one comparison of identity.
    if gradient.type is operand.type:
        return gradient
    if elementwise and gradient.shape != operand.shape:
        gradient = sum_to(gradient, operand.shape)
    if gradient.shape != operand.shape:
        raise OperandError(
            f"a gradient of shape {gradient.shape} for {operand!r}",
            rule="a gradient must have its operand's shape",
            fix="check the operation's gradient()",
        )
    # a product of float32 and float64 has a float64 gradient for both: each operand's has its own dtype
    return cast(gradient, operand.dtype)


_Container = TypeVar("_Container")


def _add(gradients: dict[int, Any], node: Expr, gradient: Expr) -> None:
    gradients.setdefault(node.uid, []).append(gradient)


def _add_part(gradients: dict[int, Any], node: Expr, index: int, gradient: Expr) -> None:
    assert isinstance(node.type, TupleType)
    # A tuple has no gradient of its own: one list of parts for each output, None where no reader reached it.
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
    """Record the gradients of ``loss`` for ``wrt``, an expression or a nested container of them.

    Each gradient has the shape and dtype of its expression. ``loss`` must be a scalar, unless ``seed`` is a gradient
    for it, of its shape. An input that the loss does not depend on gets the structured zero, and the plan says so.
    Raises OperandError for a loss that is not a real number.

    >>> w, x = ex.tensor([1.0, 2.0], name="w"), ex.tensor([3.0, 4.0], name="x")
    >>> dw, dx = ex.grad((w * x).sum(), [w, x])
    >>> ex.evaluate([dw, dx])
    [array([3., 4.]), array([1., 2.])]
    """
    inputs, structure = flatten(wrt)
    if not inputs or not all(isinstance(node, Expr) for node in inputs):
        raise OperandError(
            "ex.grad for something that is no expression",
            rule="wrt must be an expression, or a container of expressions",
            fix="ex.grad(loss, wrt=[w, b]), where w and b are those that the loss was recorded with",
        )
    if not isinstance(loss, Expr):
        raise OperandError(
            f"ex.grad of {class_text(loss)}",
            rule="the loss must be one expression",
            fix="ex.grad(function(x), [x])"
            if callable(loss)
            else "ex.grad(loss, wrt), or the sum of several: ex.grad(loss_1 + loss_2, wrt)",
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
            rule="the loss must be a scalar, or a seed of its shape must weigh its elements",
            fix="reduce it first (loss.sum()), or pass seed=…",
        )
    for node in inputs:
        if not is_floating(node.dtype):
            raise OperandError(
                f"ex.grad for {node!r}",
                rule="wrt must have a real floating dtype",
                fix="record it from a float: ex.tensor(x, dtype=np.float32)",
            )
    # Every node of the backward pass belongs to the user's line with ex.grad; looking it up once is enough.
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
