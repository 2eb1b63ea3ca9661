"""Labels of classes, and the transforms that classifiers and regressors of ai.onnx.ml apply to their scores."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import tensor, tensor_of
from explorer.net.operators.context import OperatorContext
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, exp, log, sigmoid, sign, sqrt
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.softmax import softmax
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import sum as total

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""transforms of scores, in the order of their numbers in TreeEnsemble"""
_ERF = 0.147
"""constant of Winitzki's approximation of the error function, as ONNX Runtime has it"""
_ZERO = 1e-7
"""scores of a smaller magnitude are zeros for SOFTMAX_ZERO"""


def transform_of(op: OperatorContext) -> str:
    """Return the transform that an operator applies to its scores."""
    return op.word("post_transform", "NONE", TRANSFORMS)


def transformed(scores: Expr, transform: str) -> Expr:
    """Return scores (n, classes) by a transform: each by itself, or all of a row."""
    if transform == "SOFTMAX":
        return softmax(scores, -1)
    if transform == "LOGISTIC":
        return sigmoid(scores)
    if transform == "PROBIT":
        return _probit(scores)
    if transform == "SOFTMAX_ZERO":
        return _softmax_of_others(scores)
    return scores


def _probit(p: Expr) -> Expr:
    """Return the quantile of the normal distribution, √2 · erf⁻¹(2 p − 1), by Winitzki's approximation."""
    x = p * 2 - 1
    logarithm = log((1 - x) * (1 + x))
    half = 2 / (pi * _ERF) + logarithm * 0.5
    root = sqrt(sqrt(half * half - logarithm * (1 / _ERF)) - half)
    return sign(x) * root * np.float32(1.41421356)


def _softmax_of_others(scores: Expr) -> Expr:
    """Return the softmax in which a score of zero stays zero; halves where all are."""
    top = largest(scores, -1, keepdims=True)
    powers = where(absolute(scores) > _ZERO, exp(scores - top), scores * exp(-top))
    size = total(powers, -1, keepdims=True)
    return where(size == 0, np.float32(0.5), powers / where(size == 0, np.float32(1), size))


def labels(op: OperatorContext, *names: str) -> np.ndarray[Any, Any]:
    """Return the labels of a classifier, whole numbers or texts, from the attributes that may hold them."""
    for name in names:
        value = op.argument(name, ())
        items = value if isinstance(value, tuple) else (value,)
        if not items:
            continue
        if all(isinstance(item, str) for item in items):
            return np.array(items)
        if all(isinstance(item, int) and not isinstance(item, bool) and abs(item) < 1 << 63 for item in items):
            return np.array(items, np.int64)
        raise OperandError(
            f"{name}={value!r:.80}", rule=f"{op.definition.type}: labels must be whole numbers, or texts"
        )
    raise OperandError("no labels are given", rule=f"{op.definition.type} must have {' or '.join(names)}")


def label_of(names: np.ndarray[Any, Any], classes: Expr) -> Expr:
    """Return the label of each number of a class."""
    return take(constant(names), classes, 0)


def constant(array: np.ndarray[Any, Any]) -> Expr:
    """Return numbers or texts as a tensor."""
    return tensor_of(Storage(array)) if array.dtype.kind == "U" else tensor(array)
