"""Support vector machines, computed in float64 from the kernel matrix of rows and support vectors.

Only the probabilities of several classes need a separate, iterative operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import (
    Labels,
    Transform,
    label_of,
    labels,
    rows,
    transformed,
)
from explorer.net.operators.signature import Ints, Known
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import maximum, where
from explorer.ops.elementwise.unary import exp, sigmoid, tanh
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.nn.activation import clip
from explorer.ops.reduction.reduce import sum as total
from explorer.ops.reduction.sorting import argmax

_MINIMUM = 1e-7
"""minimum pairwise probability"""
_ITERATIONS = 100
"""maximum number of iterations"""
_TOLERANCE = 0.005
"""tolerance of probabilities, before division by the number of classes"""
_NONE = np.zeros(0)
"""value of an omitted attribute"""


class CoupledProbabilities(Operation):
    """Probabilities of k classes from pairwise probabilities: (n, k (k − 1) / 2) → (n, k).

    This is the second method of Wu, Lin and Weng (2004), as in LIBSVM, iterated until each row is within the tolerance.
    """

    classes: int
    portable = False
    nondifferentiable = "probabilities are computed by a variable number of iterations"
    refuses_gradient = True
    unbatchable = "rows are already a batch: pass all rows at once"
    examples = (Example(real(4, 3, low=0.1, high=0.9), classes=3), Example(real(4, 1, low=0.1, high=0.9), classes=2))

    def infer(self, pairs: TensorType) -> TensorType:
        """Return (n, classes)."""
        if pairs.rank != 2 or pairs.shape[1] * 2 != self.classes * (self.classes - 1) or pairs.dtype.kind != "f":
            raise self.refuse((pairs,), f"a row must have a probability for each pair of {self.classes} classes")
        return pairs.with_shape((pairs.shape[0], self.classes))

    def kernel(self, out: Array, pairs: Array) -> Array:
        """Iterate until all rows are within the tolerance."""
        k = self.classes
        wins = np.zeros((len(pairs), k, k))
        for index, (i, j) in enumerate(combinations(range(k), 2)):
            wins[:, i, j], wins[:, j, i] = pairs[:, index], 1 - pairs[:, index]
        q = -wins.transpose(0, 2, 1) * wins
        q[:, range(k), range(k)] = (wins**2).sum(1)
        p = np.full((len(pairs), k), 1 / k)
        rows = np.arange(len(pairs))
        for _ in range(max(_ITERATIONS, k)):
            product = np.einsum("nij,nj->ni", q[rows], p[rows])
            level = (p[rows] * product).sum(1)
            is_unfinished = np.abs(product - level[:, None]).max(1) >= _TOLERANCE / k
            rows = rows[is_unfinished]
            if not len(rows):
                break
            p[rows] = self._step(q[rows], p[rows], product[is_unfinished], level[is_unfinished])
        np.copyto(out, p, casting="same_kind")
        return out

    def _step(self, q: Array, p: Array, product: Array, level: Array) -> Array:
        for t in range(self.classes):
            size = q[:, t, t]
            change = (level - product[:, t]) / size
            p[:, t] += change
            # The sum of the probabilities stays 1, and products with them are updated instead of recomputed.
            scale = 1 + change
            level = (level + change * (change * size + 2 * product[:, t])) / scale**2
            product = (product + change[:, None] * q[:, t]) / scale[:, None]
            p /= scale[:, None]
        return p

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return the cost of one iteration."""
        return types[0].shape[0] * self.classes**3


@dataclass(frozen=True)
class Kernel:
    """Attributes of the kernel function."""

    kernel_type: Literal["LINEAR", "POLY", "RBF", "SIGMOID"] = "LINEAR"
    kernel_params: tuple[float, ...] = ()

    def __call__(self, x: Expr, vectors: Array) -> Expr:
        """Return the kernel matrix of rows and vectors, (n, vectors)."""
        products = x @ tensor(np.ascontiguousarray(vectors.T))
        if self.kernel_type == "LINEAR":
            return products
        if len(self.kernel_params) != 3:
            raise OperandError(
                f"kernel_params has {len(self.kernel_params)} numbers",
                rule="kernel_params must be gamma, the constant term, and the degree",
            )
        gamma, constant, degree = self.kernel_params
        if not 0 <= degree < 1 << 16:
            raise OperandError(f"a degree of {degree}", rule="the degree must be a small integer")
        if self.kernel_type == "RBF":
            squares = total(x * x, -1, keepdims=True) + tensor((vectors**2).sum(1))
            # |x − v|² = x² + v² − 2 x·v, which rounding may make negative if x is close to v
            return exp(maximum(squares - 2 * products, 0.0) * -gamma)
        inner = gamma * products + constant
        return tanh(inner) if self.kernel_type == "SIGMOID" else inner ** int(degree)


def _matrix(name: str, values: Array, rows: int, columns: int) -> Array:
    if values.size != rows * columns:
        raise OperandError(f"{name} has {values.size} numbers", rule=f"{name} must have {rows} × {columns} numbers")
    return values.reshape(rows, columns).astype(np.float64)


def _scores(scores: Expr) -> Expr:
    return cast(scores, np.dtype(np.float32))


@operator("ai.onnx.ml.SVMRegressor")
def svm_regressor(
    X: Expr,
    *,
    coefficients: Known[Array],
    rho: Known[Array],
    n_supports: int = 0,
    support_vectors: Known[Array] = _NONE,
    kernel: Kernel,
    one_class: int = 0,
    post_transform: Literal["NONE"] = "NONE",
) -> Expr:
    """Return kernels · coefficients + rho for each row, or its sign if ``one_class`` is set."""
    x = cast(rows(X), np.dtype(np.float64))
    count = n_supports
    if count > 0:
        kernels = kernel(x, _matrix("support_vectors", support_vectors, count, x.shape[1]))
    else:
        count, kernels = x.shape[1], x
    y = kernels @ tensor(_matrix("coefficients", coefficients, count, 1)) + tensor(_matrix("rho", rho, 1, 1))
    return _scores(where(y > 0, 1.0, -1.0) if coefficients.size and one_class else y)


@operator("ai.onnx.ml.SVMClassifier")
def svm_classifier(
    X: Expr,
    *,
    classlabels: Labels,
    coefficients: Known[Array],
    rho: Known[Array],
    vectors_per_class: Ints = (),
    support_vectors: Known[Array] = _NONE,
    kernel: Kernel,
    prob_a: Known[Array] = _NONE,
    prob_b: Known[Array] = _NONE,
    post_transform: Transform = "NONE",
) -> tuple[Expr, Expr]:
    """Return the label that wins the most pairs of classes, and pair scores or class probabilities.

    Without support vectors, each class has its own coefficients and score.
    """
    x, names = cast(rows(X), np.dtype(np.float64)), labels(classlabels)
    classes, sizes = len(names), vectors_per_class
    if not any(sizes):
        if not rho.size:
            raise OperandError("rho is empty", rule="SVMClassifier: rho must not be empty")
        weights = _matrix("coefficients", coefficients, classes, x.shape[1])
        scores = x @ tensor(np.ascontiguousarray(weights.T)) + float(rho.reshape(-1)[0])
        return label_of(names, argmax(scores, -1)), transformed(_scores(scores), post_transform)
    if len(sizes) != classes or min(sizes) < 0 or classes < 2:
        raise OperandError(
            f"vectors_per_class={sizes} for {classes} labels",
            rule="SVMClassifier must have two labels or more, and a number of support vectors for each",
        )
    count, pairs = sum(sizes), classes * (classes - 1) // 2
    columns = _pair_columns(_matrix("coefficients", coefficients, classes - 1, count), sizes)
    kernels = kernel(x, _matrix("support_vectors", support_vectors, count, x.shape[1]))
    scores = kernels @ tensor(columns) + tensor(_matrix("rho", rho, 1, pairs))
    label = label_of(names, argmax(_votes(scores, classes), -1))
    if prob_a.size:
        slope, shift = tensor(_matrix("prob_a", prob_a, 1, pairs)), tensor(_matrix("prob_b", prob_b, 1, pairs))
        probabilities = clip(sigmoid(-(scores * slope + shift)), _MINIMUM, 1 - _MINIMUM)
        return label, transformed(_scores(CoupledProbabilities(classes)(probabilities)), post_transform)
    if classes > 2:
        return label, transformed(_scores(scores), post_transform)
    if post_transform == "PROBIT":
        raise OperandError("PROBIT of one score", rule="SVMClassifier: PROBIT requires a score for each class")
    # Two classes have a single score, from which ONNX Runtime computes two columns.
    score = _scores(scores)
    if post_transform in ("NONE", "LOGISTIC"):
        return label, transformed(concatenate([-score, score], 1), post_transform)
    return label, concatenate([1 - score, score], 1)


def _pair_columns(coefficients: Array, sizes: tuple[int, ...]) -> Array:
    """Return the coefficients of all support vectors for each pair of classes, (vectors, pairs)."""
    ends = np.cumsum((0, *sizes))
    columns = []
    for i, j in combinations(range(len(sizes)), 2):
        column = np.zeros(ends[-1])
        # In LIBSVM's layout, a vector has no row for its own class, so later classes are one row earlier.
        column[ends[i] : ends[i + 1]] = coefficients[j - 1, ends[i] : ends[i + 1]]
        column[ends[j] : ends[j + 1]] = coefficients[i, ends[j] : ends[j + 1]]
        columns.append(column)
    return np.stack(columns, 1)


def _votes(scores: Expr, classes: int) -> Expr:
    """Return the number of pairs that each class wins; the first class of a pair wins if the score is above zero."""
    pairs = list(combinations(range(classes), 2))
    first_classes, second_classes = np.zeros((2, len(pairs), classes))
    for index, (i, j) in enumerate(pairs):
        first_classes[index, i] = second_classes[index, j] = 1
    wins = cast(scores > 0, np.dtype(np.float64))
    return wins @ tensor(first_classes - second_classes) + tensor(second_classes.sum(0))
