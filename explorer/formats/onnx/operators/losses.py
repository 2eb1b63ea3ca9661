"""Losses of classifiers."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import take, take_along_axis
from explorer.ops.manipulation.reshape import expand_dims, squeeze
from explorer.ops.reduction.reduce import mean
from explorer.ops.reduction.reduce import sum as total


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(op: OperatorContext) -> Expr:
    """−x at each target's class, weighed by class; targets of ``ignore_index`` count nothing."""
    x, target, weights = required(op, "input"), required(op, "target"), optional(op, "weight")
    reduction = op.word("reduction", "mean", ("mean", "sum", "none"))
    if x.ndim < 2 or (x.shape[0], *x.shape[2:]) != target.shape:
        raise OperandError(
            f"scores {x.type} and targets {target.type}", rule="input must be (N, C, …), target (N, …) alike"
        )
    ignored = target == op.integer("ignore_index") if op.has("ignore_index") else None
    classes = target if ignored is None else where(ignored, 0, target)
    losses = -squeeze(take_along_axis(x, expand_dims(classes, 1), 1), 1)
    shares = None if weights is None else take(weights, classes, 0)
    if ignored is not None:
        shares = where(ignored, full((), 0, x.dtype), full((), 1, x.dtype) if shares is None else shares)
    if shares is not None:
        losses = losses * shares
    if reduction == "none":
        return losses
    if reduction == "sum":
        return total(losses)
    return mean(losses) if shares is None else _weighted_mean(losses, shares)


@rounded_once
def _weighted_mean(losses: Expr, shares: Expr) -> Expr:
    return total(losses) / total(shares)
