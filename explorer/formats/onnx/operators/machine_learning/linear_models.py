"""Linear models: a regressor, and a classifier with the labels and scores of its classes."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array
from explorer.formats.onnx.operators.base.operator_inputs import first, numbers, rows
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import label_of, labels, transform_of, transformed
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.reduction.sorting import argmax
from explorer.record.reasons import counted_text


def _reals(op: OperatorContext, name: str) -> Array:
    array: Array = numbers(op, name, np.float32)
    return array


def _products(op: OperatorContext, x: Expr, count: int) -> Expr:
    """Return x · coefficientsᵀ + intercepts, a column for each row of coefficients."""
    weights = _reals(op, "coefficients")
    if count < 1 or weights.size % count:
        raise OperandError(
            f"{weights.size} coefficients for {count} targets", rule="each target must have a coefficient a feature"
        )
    coefficients = weights.reshape(count, -1).astype(x.dtype)
    y = x @ tensor(np.ascontiguousarray(coefficients.T))
    if not op.has("intercepts"):
        return y
    intercepts = _reals(op, "intercepts").astype(x.dtype)
    if intercepts.size != count:
        raise OperandError(
            f"{intercepts.size} intercepts for {count} targets", rule="each target must have an intercept"
        )
    return y + tensor(intercepts)


@operator("ai.onnx.ml.LinearRegressor")
def linear_regressor(op: OperatorContext) -> Expr:
    """x · coefficientsᵀ + intercepts, one column for each target."""
    x = cast(first(op), np.dtype(np.float32))
    return transformed(_products(op, x, op.integer("targets", 1)), transform_of(op))


@operator("ai.onnx.ml.LinearClassifier", ignored=("multi_class",))
def linear_classifier(op: OperatorContext) -> tuple[Expr, Expr]:
    """The label of the largest score, and the scores x · coefficientsᵀ + intercepts after a transform.

    One row of coefficients is that of the second of two classes: it wins with a score above zero.
    """
    x = cast(rows(op), np.dtype(np.float32))
    names, transform = labels(op, "classlabels_ints", "classlabels_strings"), transform_of(op)
    columns = x.shape[1]
    count = _reals(op, "coefficients").size // columns if columns else 0
    scores = _products(op, x, count)
    if count == len(names):
        return label_of(names, argmax(scores, -1)), transformed(scores, transform)
    if (count, len(names)) != (1, 2):
        raise OperandError(
            f"{counted_text(count, 'row')} of coefficients for {counted_text(len(names), 'label')}",
            rule="LinearClassifier must have a row for each label, or one for two",
        )
    label = label_of(names, cast(scores[:, 0] > 0, np.dtype(np.int64)))
    if transform in ("LOGISTIC", "PROBIT"):
        return label, transformed(concatenate([-scores, scores], 1), transform)
    return label, concatenate([1 - scores, scores], 1)
