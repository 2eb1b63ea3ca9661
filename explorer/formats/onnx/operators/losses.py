"""Losses of classifiers."""

from __future__ import annotations

from typing import Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import take, take_along_axis
from explorer.ops.manipulation.reshape import expand_dims, squeeze
from explorer.ops.reduction.reduce import mean
from explorer.ops.reduction.reduce import sum as total


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    input: Expr,
    target: Expr,
    weight: Expr | None = None,
    *,
    reduction: Literal["mean", "sum", "none"] = "mean",
    ignore_index: int | None = None,
) -> Expr:
    """Return −``input`` at each target's class, weighted by class; targets equal to ``ignore_index`` have weight 0."""
    if input.ndim < 2 or (input.shape[0], *input.shape[2:]) != target.shape:
        raise OperandError(
            f"scores {input.type} and targets {target.type}",
            rule="input must be (N, C, …), and target (N, …) with equal sizes",
        )
    ignored = None if ignore_index is None else target == ignore_index
    classes = target if ignored is None else where(ignored, 0, target)
    losses = -squeeze(take_along_axis(input, expand_dims(classes, 1), 1), 1)
    weights = None if weight is None else take(weight, classes, 0)
    if ignored is not None:
        weights = where(ignored, full((), 0, input.dtype), full((), 1, input.dtype) if weights is None else weights)
    if weights is not None:
        losses = losses * weights
    if reduction == "none":
        return losses
    if reduction == "sum":
        return total(losses)
    return mean(losses) if weights is None else _weighted_mean(losses, weights)


@rounded_once
def _weighted_mean(losses: Expr, weights: Expr) -> Expr:
    return total(losses) / total(weights)
