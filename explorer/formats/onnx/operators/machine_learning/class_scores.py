"""Class labels, and the transforms that classifiers and regressors of ai.onnx.ml apply to scores."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Annotated, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import tensor, tensor_of
from explorer.core.types.tensor_type import Array
from explorer.net.operators.signature import Ints, Names
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, exp, log, sigmoid, sign, sqrt
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.softmax import softmax
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import sum as total

Transform = Literal["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
"""transforms of scores, in the order of their codes in TreeEnsemble"""
Labels = Annotated[Ints | tuple[str, ...], Names("classlabels_ints", "classlabels_int64s", "classlabels_strings")]
"""class labels, stored in one of these attributes"""
_ERF = 0.147
"""constant of Winitzki's approximation of the error function in ONNX Runtime"""
_ZERO = 1e-7
"""magnitude below which SOFTMAX_ZERO treats a score as zero"""


def transformed(scores: Expr, transform: str) -> Expr:
    """Return scores (n, classes) after the transform ``transform``."""
    if transform == "SOFTMAX":
        return softmax(scores, -1)
    if transform == "LOGISTIC":
        return sigmoid(scores)
    if transform == "PROBIT":
        return _probit(scores)
    if transform == "SOFTMAX_ZERO":
        return _softmax_of_nonzeros(scores)
    return scores


def _probit(p: Expr) -> Expr:
    """Return √2 · erf⁻¹(2 p − 1), the normal quantile, using Winitzki's approximation."""
    x = p * 2 - 1
    logarithm = log((1 - x) * (1 + x))
    half = 2 / (pi * _ERF) + logarithm * 0.5
    root = sqrt(sqrt(half * half - logarithm * (1 / _ERF)) - half)
    return sign(x) * root * np.float32(1.41421356)


def _softmax_of_nonzeros(scores: Expr) -> Expr:
    """Return the softmax of the nonzero scores; zeros stay zero, and rows of zeros become 0.5."""
    top = largest(scores, -1, keepdims=True)
    powers = where(absolute(scores) > _ZERO, exp(scores - top), scores * exp(-top))
    norm = total(powers, -1, keepdims=True)
    return where(norm == 0, np.float32(0.5), powers / where(norm == 0, np.float32(1), norm))


def labels(values: Ints | tuple[str, ...]) -> Array:
    """Return labels as an array; raise OperandError if there are none."""
    if not values:
        raise OperandError("no labels", rule="there must be labels, either integers or strings")
    return np.array(values) if isinstance(values[0], str) else int64s("labels", values)


def int64s(name: str, numbers: Sequence[int]) -> Array:
    """Return integers as an array; raise OperandError if one has more than 64 bits."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError as error:
        raise OperandError(f"{name}: {error}", rule=f"{name} must fit 64 bits") from None


def rows(x: Expr) -> Expr:
    """Return an operand as rows of numbers, (n, features); a vector becomes a single row."""
    if x.ndim == 1:
        x = reshape(x, (1, x.size))
    if x.ndim != 2 or x.dtype.kind not in "iuf":
        raise OperandError(f"rows of {x.type}", rule="rows must be numbers of shape (n, features)")
    return x


def label_of(names: Array, classes: Expr) -> Expr:
    """Return the label of each class index."""
    return take(constant(names), classes, 0)


def constant(array: Array) -> Expr:
    """Return numbers or strings as a tensor."""
    return tensor_of(Storage(array)) if array.dtype.kind == "U" else tensor(array)
