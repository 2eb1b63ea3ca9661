"""Operator types for losses and accuracy; class labels have shape (N,) or (N, 1).

Names and limits are those of Caffe2. SoftmaxWithLoss uses the scores, since logarithms of small probabilities would be
inaccurate.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import equal, greater, less, logical_and, logical_or, maximum, where
from explorer.ops.elementwise.unary import log
from explorer.ops.manipulation.one_hot import one_hot
from explorer.ops.manipulation.reshape import flatten, reshape
from explorer.ops.nn.softmax import log_softmax, softmax
from explorer.ops.reduction.sorting import cumsum

LEAST_PROBABILITY = 1e-20
"""minimum to which probabilities are clipped (Caffe2: LabelCrossEntropyOp::kLOG_THRESHOLD)"""


@net_operator()
def SquaredL2Distance(x: Expr, y: Expr) -> Expr:
    """Return ½ Σ (x − y)² over all axes except the first: (N, …) to (N,)."""
    return _half_squared_distance(x, y)


@rounded_once
def _half_squared_distance(x: Expr, y: Expr) -> Expr:
    difference = x - y
    return (difference * difference).sum(tuple(range(1, x.ndim))) * 0.5


@net_operator()
def AveragedLoss(x: Expr) -> Expr:
    """Return the mean of all elements, a scalar."""
    return x.mean()


@net_operator(no_gradient=(1,))
def LabelCrossEntropy(x: Expr, label: Expr) -> Expr:
    """Return −log of the probability of each row's label: x (N, D) to (N,)."""
    return -log(maximum((x * _chosen(x, label)).sum(1), LEAST_PROBABILITY))


@net_operator(no_gradient=(1,))
def SoftmaxWithLoss(logits: Expr, label: Expr) -> tuple[Expr, Expr]:
    """Return the softmax of the rows (N, D), and the mean of −log of the labels' probabilities, a scalar."""
    rows = logits if logits.ndim == 2 else flatten(logits, 1)
    # Elements are selected instead of multiplied by a one-hot row, since 0 · −∞ is NaN.
    chosen = _chosen(rows, label, np.dtype(np.bool_))
    return softmax(rows, 1), -where(chosen, log_softmax(rows, 1), 0.0).sum(1).mean()


@net_operator(gradient="refused")
def Accuracy(x: Expr, label: Expr, *, top_k: Annotated[int, "a label among the top_k scores is correct"] = 1) -> Expr:
    """Return the fraction of rows of x (N, D) whose label is among the top_k scores; ties go to the first score."""
    if top_k < 1:
        raise OperandError(f"top_k={top_k}", rule="Accuracy: top_k must be at least 1", fix="top_k=1")
    chosen = _chosen(x, label)
    # Not a product with the one-hot row, since infinite scores would become NaN.
    own = where(greater(chosen, 0.0), x, 0.0).sum(1, keepdims=True)
    earlier = equal(cumsum(chosen, 1), 0.0)
    before = logical_or(greater(x, own), logical_and(equal(x, own), earlier))
    ranks = cast(before, np.dtype(np.float32)).sum(1)
    return cast(less(ranks, float(top_k)), np.dtype(np.float32)).mean()


def _chosen(rows: Expr, label: Expr, dtype: np.dtype[Any] | None = None) -> Expr:
    """Return one-hot rows for the labels, by default with the dtype of ``rows``."""
    if rows.ndim != 2 or label.shape not in ((rows.shape[0],), (rows.shape[0], 1)):
        raise OperandError(
            f"rows {rows.type} with labels {label.type}",
            rule="rows must have shape (N, D), and labels must be class labels of shape (N,) or (N, 1)",
            fix="net.Reshape or net.Flatten, so that each sample is one row",
        )
    return one_hot(reshape(label, (label.size,)), rows.shape[1], rows.dtype if dtype is None else dtype)
