"""Operators of classical machine learning (domain ai.onnx.ml) that are arithmetic; the others are delegated."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array
from explorer.formats.onnx.operators.operator_inputs import first, word
from explorer.formats.onnx.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, sqrt
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import sum as total


def _features(op: OperatorContext) -> Expr:
    """Return the operand in float32, as the standard has it for all of these."""
    return cast(first(op), np.dtype(np.float32))


@operator("ai.onnx.ml.Scaler")
def scaler(op: OperatorContext) -> Expr:
    """(x − offset) · scale, with one number of each for all features, or one for each feature."""
    x = _features(op)
    return (x - _numbers(op, "offset", x)) * _numbers(op, "scale", x)


def _numbers(op: OperatorContext, name: str, x: Expr) -> Expr:
    values = _reals(op, name)
    if values.size not in (1, x.shape[-1] if x.ndim else 1):
        raise OperandError(
            f"{name} has {values.size} numbers for {x.type}", rule=f"{name} must have one number, or one a feature"
        )
    return tensor(values)


def _reals(op: OperatorContext, name: str) -> Array:
    """Return an attribute that is a list of numbers."""
    value = op.argument(name)
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        raise OperandError(f"{name}={value!r:.80}", rule=f"{op.definition.type}: {name} must be a list of numbers")
    return np.asarray(numbers, np.float32)


@operator("ai.onnx.ml.Normalizer")
def normalizer(op: OperatorContext) -> Expr:
    """Rows divided by their largest element, by the sum of their magnitudes, or by their length; zeros stay."""
    x = _features(op)
    norm = word(op, "norm", "MAX", ("MAX", "L1", "L2"))
    if norm == "MAX":
        size = largest(absolute(x), -1, keepdims=True)
    elif norm == "L1":
        size = total(absolute(x), -1, keepdims=True)
    else:
        size = sqrt(total(x * x, -1, keepdims=True))
    return x / where(size == 0, tensor(np.float32(1)), size)


@operator("ai.onnx.ml.LinearRegressor")
def linear_regressor(op: OperatorContext) -> Expr:
    """x · coefficientsᵀ + intercepts, one column for each target."""
    x = _features(op)
    op.only("post_transform", "NONE")
    targets, numbers = op.integer("targets", 1), _reals(op, "coefficients")
    if targets < 1 or numbers.size % targets:
        raise OperandError(
            f"{numbers.size} coefficients for {targets} targets", rule="each target must have a coefficient a feature"
        )
    coefficients = numbers.reshape(targets, -1)
    y = x @ tensor(np.ascontiguousarray(coefficients.T))
    return y + tensor(_reals(op, "intercepts")) if op.has("intercepts") else y


@operator("ai.onnx.ml.ZipMap")
def zip_map(op: OperatorContext) -> Expr:
    """Scores as they are, an array with a column for each label; the standard has a map of labels for each row."""
    x = first(op)
    labels = op.argument("classlabels_strings") if op.has("classlabels_strings") else op.argument("classlabels_int64s")
    count = len(labels) if isinstance(labels, tuple) else 1
    if x.ndim == 0 or x.shape[-1] != count:
        raise OperandError(f"{count} labels for {x.type}", rule="each column must have a label")
    return x
