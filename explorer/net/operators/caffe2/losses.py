"""Losses, and the distances and averages that they are made of; labels are class numbers (N,) or (N, 1).

The names and limits are Caffe2's. SoftmaxWithLoss is one operator because its loss is taken of the scores, not of the
probabilities, whose logarithm would lose small ones.
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.elementwise.arithmetic import maximum
from explorer.ops.elementwise.unary import log
from explorer.ops.manipulation.one_hot import one_hot
from explorer.ops.manipulation.reshape import flatten, reshape
from explorer.ops.nn.softmax import log_softmax, softmax

LEAST_PROBABILITY = 1e-20
"""the least probability; smaller ones count as this (Caffe2: LabelCrossEntropyOp::kLOG_THRESHOLD)"""


@net_operator()
def SquaredL2Distance(x: Expr, y: Expr) -> Expr:
    """½ Σ (x − y)² over all axes but the first: (N, …) to (N,)."""
    difference = x - y
    return (difference * difference).sum(tuple(range(1, x.ndim))) * 0.5


@net_operator()
def AveragedLoss(x: Expr) -> Expr:
    """The mean of all elements, a scalar."""
    return x.mean()


@net_operator(no_gradient=(1,))
def LabelCrossEntropy(x: Expr, label: Expr) -> Expr:
    """−log of the probability of each row's label: x (N, D) to (N,)."""
    return -log(maximum((x * _chosen(x, label)).sum(1), LEAST_PROBABILITY))


@net_operator(no_gradient=(1,))
def SoftmaxWithLoss(logits: Expr, label: Expr) -> tuple[Expr, Expr]:
    """Softmax of the rows (N, D), and the mean of −log of their labels' probabilities, a scalar."""
    rows = logits if logits.ndim == 2 else flatten(logits, 1)
    return softmax(rows, 1), -(log_softmax(rows, 1) * _chosen(rows, label)).sum(1).mean()


def _chosen(rows: Expr, label: Expr) -> Expr:
    if rows.ndim != 2 or label.shape not in ((rows.shape[0],), (rows.shape[0], 1)):
        raise OperandError(
            f"rows {rows.type} with labels {label.type}",
            rule="rows must be (N, D), and labels must be class numbers (N,) or (N, 1)",
            fix="net.Reshape or net.Flatten of the rows, so that an example is one row",
        )
    return one_hot(reshape(label, (label.size,)), rows.shape[1], rows.dtype)
