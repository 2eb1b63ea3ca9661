"""Linear models: a regressor, and a classifier that returns labels and scores."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import (
    Labels,
    Transform,
    label_of,
    labels,
    rows,
    transformed,
)
from explorer.net.operators.signature import Known, Unused
from explorer.ops.base import cast
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.reduction.sorting import argmax
from explorer.record.reasons import counted_text

_FLOAT32 = np.dtype(np.float32)


def _products(x: Expr, coefficients: Array, intercepts: Array | None, count: int) -> Expr:
    """Return x · coefficientsᵀ + intercepts, with one column per row of coefficients."""
    if count < 1 or coefficients.size % count:
        raise OperandError(
            f"{coefficients.size} coefficients for {count} targets",
            rule="each target must have a coefficient per feature",
        )
    y = x @ tensor(np.ascontiguousarray(coefficients.reshape(count, -1).T, x.dtype))
    if intercepts is None:
        return y
    if intercepts.size != count:
        raise OperandError(
            f"{intercepts.size} intercepts for {count} targets", rule="each target must have an intercept"
        )
    return y + tensor(intercepts.reshape(-1).astype(x.dtype))


@operator("ai.onnx.ml.LinearRegressor")
def linear_regressor(
    X: Expr,
    *,
    coefficients: Known[Array],
    intercepts: Known[Array] | None = None,
    targets: int = 1,
    post_transform: Transform = "NONE",
) -> Expr:
    """Return x · coefficientsᵀ + intercepts, with one column per target."""
    return transformed(_products(cast(X, _FLOAT32), coefficients, intercepts, targets), post_transform)


@operator("ai.onnx.ml.LinearClassifier")
def linear_classifier(
    X: Expr,
    *,
    coefficients: Known[Array],
    intercepts: Known[Array] | None = None,
    classlabels: Labels,
    post_transform: Transform = "NONE",
    multi_class: Unused,
) -> tuple[Expr, Expr]:
    """Return the label of the largest score, and the transformed scores x · coefficientsᵀ + intercepts.

    With two classes, a single row of coefficients scores the second class, which is chosen if its score is positive.
    """
    x, names = cast(rows(X), _FLOAT32), labels(classlabels)
    count = coefficients.size // x.shape[1] if x.shape[1] else 0
    scores = _products(x, coefficients, intercepts, count)
    if count == len(names):
        return label_of(names, argmax(scores, -1)), transformed(scores, post_transform)
    if (count, len(names)) != (1, 2):
        raise OperandError(
            f"{counted_text(count, 'row')} of coefficients for {counted_text(len(names), 'label')}",
            rule="LinearClassifier must have a row for each label, or one row for two labels",
        )
    label = label_of(names, cast(scores[:, 0] > 0, np.dtype(np.int64)))
    if post_transform in ("LOGISTIC", "PROBIT"):
        return label, transformed(concatenate([-scores, scores], 1), post_transform)
    return label, concatenate([1 - scores, scores], 1)
