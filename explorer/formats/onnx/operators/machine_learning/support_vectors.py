"""Support vector machines: products with the support vectors are a matrix, from which scores and votes follow.

All of it is arithmetic that Explorer has operations for, in float64, since the distances of vectors are taken from
their products; only the probabilities of several classes are found step by step, by an operation of their own.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.operator_inputs import numbers, rows
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import label_of, labels, transform_of, transformed
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import maximum, where
from explorer.ops.elementwise.unary import exp, sigmoid, tanh
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.nn.activation import clip
from explorer.ops.reduction.reduce import sum as total
from explorer.ops.reduction.sorting import argmax

_LEAST = 1e-7
"""least probability of a pair of classes"""
_STEPS = 100
"""steps after which probabilities that still move are taken as they are"""
_CLOSE = 0.005
"""by how much, over the number of classes, probabilities may be off"""


class CoupledProbabilities(Operation):
    """Probabilities of k classes from those of each pair: (n, k (k − 1) / 2) → (n, k).

    Wu, Lin and Weng (2004), second method, as LIBSVM has it: a row is done when it is close enough.
    """

    classes: int
    portable = False
    nondifferentiable = "probabilities are found by steps, as many as each row needs"
    refuses_gradient = True
    unbatchable = "rows are a batch already: give it all rows at once"
    examples = (Example(real(4, 3, low=0.1, high=0.9), classes=3), Example(real(4, 1, low=0.1, high=0.9), classes=2))

    def infer(self, pairs: TensorType) -> TensorType:
        """Return (n, classes)."""
        if pairs.rank != 2 or pairs.shape[1] * 2 != self.classes * (self.classes - 1) or pairs.dtype.kind != "f":
            raise self.refuse((pairs,), f"a row must have a probability for each pair of {self.classes} classes")
        return pairs.with_shape((pairs.shape[0], self.classes))

    def kernel(self, out: Array, pairs: Array) -> Array:
        """Step until all rows are close enough."""
        k = self.classes
        wins = np.zeros((len(pairs), k, k))
        for place, (i, j) in enumerate(combinations(range(k), 2)):
            wins[:, i, j], wins[:, j, i] = pairs[:, place], 1 - pairs[:, place]
        q = -wins.transpose(0, 2, 1) * wins
        q[:, range(k), range(k)] = (wins**2).sum(1)
        p = np.full((len(pairs), k), 1 / k)
        rows = np.arange(len(pairs))
        for _ in range(max(_STEPS, k)):
            product = np.einsum("nij,nj->ni", q[rows], p[rows])
            level = (p[rows] * product).sum(1)
            moving = np.abs(product - level[:, None]).max(1) >= _CLOSE / k
            rows = rows[moving]
            if not len(rows):
                break
            p[rows] = self._step(q[rows], p[rows], product[moving], level[moving])
        np.copyto(out, p, casting="same_kind")
        return out

    def _step(self, q: Array, p: Array, product: Array, level: Array) -> Array:
        for t in range(self.classes):
            size = q[:, t, t]
            change = (level - product[:, t]) / size
            p[:, t] += change
            # Probabilities are kept at a sum of 1, and products with them are updated instead of computed anew.
            scale = 1 + change
            level = (level + change * (change * size + 2 * product[:, t])) / scale**2
            product = (product + change[:, None] * q[:, t]) / scale[:, None]
            p /= scale[:, None]
        return p

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return the work of one step."""
        return types[0].shape[0] * self.classes**3


def _rows(op: OperatorContext) -> Expr:
    return cast(rows(op), np.dtype(np.float64))


def _reals(op: OperatorContext, name: str) -> Array:
    array: Array = numbers(op, name, np.float64, [])
    return array


def _matrix(op: OperatorContext, name: str, rows: int, columns: int) -> Array:
    values = _reals(op, name)
    if values.size != rows * columns:
        raise OperandError(
            f"{name} has {values.size} numbers", rule=f"{op.definition.type}: {name} must have {rows} × {columns}"
        )
    return values.reshape(rows, columns)


def _kernel(op: OperatorContext, x: Expr, vectors: Array) -> Expr:
    """Return what the kernel gives for each row and each vector: (n, vectors)."""
    name = op.word("kernel_type", "LINEAR", ("LINEAR", "POLY", "RBF", "SIGMOID"))
    products = x @ tensor(np.ascontiguousarray(vectors.T))
    if name == "LINEAR":
        return products
    parameters = _reals(op, "kernel_params")
    if parameters.size != 3:
        raise OperandError(
            f"kernel_params has {parameters.size} numbers",
            rule=f"{op.definition.type}: kernel_params must be gamma, the constant term, and the degree",
        )
    gamma, constant, degree = parameters.tolist()
    if not 0 <= degree < 1 << 16:
        raise OperandError(
            f"a degree of {degree}", rule=f"{op.definition.type}: the degree must be a small whole number"
        )
    if name == "RBF":
        squares = total(x * x, -1, keepdims=True) + tensor((vectors**2).sum(1))
        # |x − v|² = x² + v² − 2 x·v, below 0 by rounding where both are close.
        return exp(maximum(squares - 2 * products, 0.0) * -gamma)
    inner = gamma * products + constant
    return tanh(inner) if name == "SIGMOID" else inner ** int(degree)


def _scores(scores: Expr) -> Expr:
    return cast(scores, np.dtype(np.float32))


@operator("ai.onnx.ml.SVMRegressor", ignored=("kernel_type", "kernel_params", "support_vectors"))
def svm_regressor(op: OperatorContext) -> Expr:
    """Kernels of a row with the support vectors · coefficients + rho; its sign for one class."""
    x, count, coefficients = _rows(op), op.integer("n_supports", 0), _reals(op, "coefficients")
    op.only("post_transform", "NONE")
    if count > 0:
        kernels = _kernel(op, x, _matrix(op, "support_vectors", count, x.shape[1]))
    else:
        count, kernels = x.shape[1], x
    y = kernels @ tensor(_matrix(op, "coefficients", count, 1)) + tensor(_matrix(op, "rho", 1, 1))
    if coefficients.size and op.integer("one_class", 0):
        return _scores(where(y > 0, 1.0, -1.0))
    return _scores(y)


@operator("ai.onnx.ml.SVMClassifier", ignored=("kernel_type", "kernel_params", "support_vectors"))
def svm_classifier(op: OperatorContext) -> tuple[Expr, Expr]:
    """The label with most votes of pairs of classes, and the scores of all pairs, or probabilities of all classes."""
    x, names, transform = _rows(op), labels(op, "classlabels_ints", "classlabels_strings"), transform_of(op)
    classes, sizes = len(names), op.integers("vectors_per_class", ())
    if not any(sizes):
        return _linear(op, x, names, transform)
    if len(sizes) != classes or min(sizes) < 0 or classes < 2:
        raise OperandError(
            f"vectors_per_class={sizes} for {classes} labels",
            rule="SVMClassifier must have two labels or more, and a number of support vectors for each",
        )
    count = sum(sizes)
    pairs = list(combinations(range(classes), 2))
    columns = _pair_columns(_matrix(op, "coefficients", classes - 1, count), sizes)
    kernels = _kernel(op, x, _matrix(op, "support_vectors", count, x.shape[1]))
    scores = kernels @ tensor(columns) + tensor(_matrix(op, "rho", 1, len(pairs)))
    label = label_of(names, argmax(_votes(scores, classes), -1))
    if _reals(op, "prob_a").size:
        slope, shift = (tensor(_matrix(op, name, 1, len(pairs))) for name in ("prob_a", "prob_b"))
        chances = clip(sigmoid(-(scores * slope + shift)), _LEAST, 1 - _LEAST)
        return label, transformed(_scores(CoupledProbabilities(classes)(chances)), transform)
    if classes > 2:
        return label, transformed(_scores(scores), transform)
    if transform == "PROBIT":
        raise OperandError("PROBIT of one score", rule="SVMClassifier: PROBIT must be of a score for each class")
    # Two classes have one score, of the pair: ONNX Runtime's two columns are derived from it.
    score = _scores(scores)
    if transform in ("NONE", "LOGISTIC"):
        return label, transformed(concatenate([-score, score], 1), transform)
    return label, concatenate([1 - score, score], 1)


def _linear(op: OperatorContext, x: Expr, names: Any, transform: str) -> tuple[Expr, Expr]:
    """Return label and scores without support vectors: coefficients of each class."""
    rho = _reals(op, "rho")
    coefficients = _matrix(op, "coefficients", len(names), x.shape[1])
    if not rho.size:
        raise OperandError("rho is empty", rule="SVMClassifier: rho must have a number")
    scores = x @ tensor(np.ascontiguousarray(coefficients.T)) + float(rho[0])
    return label_of(names, argmax(scores, -1)), transformed(_scores(scores), transform)


def _pair_columns(coefficients: Array, sizes: tuple[int, ...]) -> Array:
    """Return the coefficients of each pair of classes for all support vectors: (vectors, pairs)."""
    ends = np.cumsum((0, *sizes))
    columns = []
    for i, j in combinations(range(len(sizes)), 2):
        column = np.zeros(ends[-1])
        # LIBSVM's layout: a vector has a row for each other class, so that classes after its own are one row up.
        column[ends[i] : ends[i + 1]] = coefficients[j - 1, ends[i] : ends[i + 1]]
        column[ends[j] : ends[j + 1]] = coefficients[i, ends[j] : ends[j + 1]]
        columns.append(column)
    return np.stack(columns, 1)


def _votes(scores: Expr, classes: int) -> Expr:
    """Return how many pairs each class has won: the first class of a pair does by a score above zero."""
    pairs = list(combinations(range(classes), 2))
    of_first, of_second = np.zeros((2, len(pairs), classes))
    for place, (i, j) in enumerate(pairs):
        of_first[place, i] = of_second[place, j] = 1
    wins = cast(scores > 0, np.dtype(np.float64))
    return wins @ tensor(of_first - of_second) + tensor(of_second.sum(0))
