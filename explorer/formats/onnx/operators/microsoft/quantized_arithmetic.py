"""Quantised operators of the domain com.microsoft, which dequantise operands and requantise results."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.quantized.integer_arithmetic import as_scalar, exact_product, saturated
from explorer.formats.onnx.operators.windows.pooling import whole_averages
from explorer.formats.onnx.operators.windows.window_attributes import WindowAttributes
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import maximum, minimum, where
from explorer.ops.elementwise.rounding_and_bits import round_half_even
from explorer.ops.elementwise.unary import sigmoid
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.activation import clip, leaky_relu
from explorer.ops.nn.softmax import softmax
from explorer.ops.reduction.reduce import max as greatest
from explorer.ops.reduction.reduce import mean
from explorer.ops.reduction.reduce import min as least

_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Quantized:
    """A quantised operand."""

    x: Expr
    scale: Expr
    zero_point: Expr | None

    def real(self) -> Expr:
        """Return the dequantised numbers."""
        wide = cast(self.x, self.scale.dtype)
        return (wide if self.zero_point is None else wide - cast(self.zero_point, wide.dtype)) * self.scale


@dataclass(frozen=True)
class Result:
    """Scale and zero point of a result."""

    scale: Expr
    zero_point: Expr | None = None

    def quantized(self, y: Expr, like: Quantized) -> Expr:
        """Return ``y`` quantised with this scale and zero point, in the dtype of ``like``."""
        return saturated(y / self.scale, self.zero_point, like.x.dtype)


@operator("com.microsoft.QLinearAdd")
def quantized_sum(A: Quantized, B: Quantized, C: Result) -> Expr:
    """Return the requantised sum of two quantised operands."""
    return C.quantized(A.real() + B.real(), A)


@operator("com.microsoft.QLinearMul")
def quantized_multiple(A: Quantized, B: Quantized, C: Result) -> Expr:
    """Return the requantised elementwise product of two quantised operands."""
    return C.quantized(A.real() * B.real(), A)


@operator("com.microsoft.QLinearSigmoid")
def quantized_sigmoid(X: Quantized, Y: Result) -> Expr:
    """Return the requantised sigmoid of a quantised operand."""
    return Y.quantized(sigmoid(X.real()), X)


@operator("com.microsoft.QLinearLeakyRelu")
def quantized_leaky_relu(X: Quantized, Y: Result, *, alpha: float = 0.01) -> Expr:
    """Return the requantised leaky ReLU of a quantised operand."""
    return Y.quantized(leaky_relu(X.real(), alpha), X)


@operator("com.microsoft.QLinearAveragePool")
def quantized_average_pool(
    X: Quantized,
    Y: Result,
    *,
    window: WindowAttributes,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: Literal[0] = 0,
) -> Expr:
    """Return the requantised mean of each window of a quantised operand.

    The zero point is added before rounding, which matters for means halfway between integers. With
    ``count_include_pad``, the divisor also counts positions of the last window beyond the padding.
    """
    means = whole_averages(X.real(), window=window, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    scaled = means / Y.scale
    return saturated(scaled if Y.zero_point is None else scaled + cast(Y.zero_point, scaled.dtype), None, X.x.dtype)


@operator("com.microsoft.QLinearGlobalAveragePool")
def quantized_global_average_pool(X: Quantized, Y: Result, *, channels_last: int = 0) -> Expr:
    """Return the requantised mean of each channel of a quantised operand."""
    axes = range(1, X.x.ndim - 1) if channels_last else range(2, X.x.ndim)
    return Y.quantized(mean(X.real(), tuple(axes), keepdims=True), X)


@operator("com.microsoft.QLinearSoftmax")
def quantized_softmax(X: Quantized, Y: Result, *, axis: int | None = None, opset: int = 13) -> Expr:
    """Return the requantised softmax along an axis, or before opset 13 over all axes from ``axis`` on."""
    x, is_old = X.real(), opset < 13
    if axis is None:
        axis = 1 if is_old else -1
    axis = normalize_axis(axis, x.ndim, "QLinearSoftmax")
    if is_old:
        rows = reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        return Y.quantized(reshape(softmax(rows, -1), x.shape), X)
    return Y.quantized(softmax(x, axis), X)


@operator("com.microsoft.QLinearConcat")
def quantized_concatenation(Y_scale: Expr, Y_zero_point: Expr | None, *inputs: Expr | None, axis: int) -> Expr:
    """Concatenate operands and requantise them with one scale; ``inputs`` are (operand, scale, zero point) triples."""
    padded = [*inputs, *[None] * (-len(inputs) % 3)]
    triples = zip(padded[::3], padded[1::3], padded[2::3], strict=True)
    parts = [Quantized(x, scale, zero) for x, scale, zero in triples if x is not None and scale is not None]
    if not parts:
        raise OperandError("no operands are given", rule="QLinearConcat must have operands with their scales")
    return Result(Y_scale, Y_zero_point).quantized(concatenate([part.real() for part in parts], axis), parts[0])


@operator("com.microsoft.QLinearWhere")
def quantized_choice(condition: Expr, X: Quantized, Y: Quantized, Z: Result) -> Expr:
    """Return the elements of X where ``condition`` is true, and of Y elsewhere, requantised."""
    return Z.quantized(where(condition, X.real(), Y.real()), X)


@operator("com.microsoft.QGemm")
def quantized_general_product(
    A: Quantized,
    B: Quantized,
    C: Expr | None = None,
    y_scale: Expr | None = None,
    y_zero_point: Expr | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Expr:
    """Return ``alpha`` · A · B + C for quantised matrices; the result is requantised if ``y_scale`` is given."""
    a, b = transpose(A.x, (1, 0)) if transA else A.x, transpose(B.x, (1, 0)) if transB else B.x
    total = exact_product(a, A.zero_point, b, B.zero_point)
    if C is not None:
        total = total + cast(C, total.dtype)
    factor = as_scalar(A.scale) * as_scalar(B.scale)
    if alpha != 1:
        factor = alpha * factor
    if y_scale is None:
        return cast(total, _FLOAT32) * factor
    zero = None if y_zero_point is None else as_scalar(y_zero_point)
    return saturated(total * (factor / as_scalar(y_scale)), zero, a.dtype)


@operator("com.microsoft.DynamicQuantizeMatMul")
def dynamically_quantized_product(
    A: Expr, B: Expr, b_scale: Expr, b_zero_point: Expr | None = None, bias: Expr | None = None
) -> Expr:
    """Return A · B + bias; A is quantised to 8 bits at run time, and B is stored quantised."""
    y = dynamic_product(A, B, b_scale, b_zero_point)
    return y if bias is None else y + bias


def dynamic_product(a: Expr, b: Expr, scale: Expr, zero: Expr | None, extent: Expr | None = None) -> Expr:
    """Return A · B in float32; A is quantised to 8 bits at run time, and B has the given scale and zero point.

    The scale of A covers the range of ``extent``, by default of A itself.
    """
    extent = a if extent is None else extent
    # 0 must be exact, because padding and activations often produce it.
    low, high = minimum(least(extent), np.float32(0)), maximum(greatest(extent), np.float32(0))
    step = where(high > low, (high - low) / np.float32(255), np.float32(1))
    zero_point = clip(round_half_even(-low / step), 0.0, 255.0)
    quantized = saturated(a / step, zero_point, np.dtype(np.uint8))
    product = exact_product(quantized, cast(zero_point, quantized.dtype), b, zero)
    return cast(product, _FLOAT32) * (step * as_scalar(scale))


@operator("com.microsoft.MatMulIntegerToFloat")
def real_product(
    A: Expr,
    B: Expr,
    a_scale: Expr,
    b_scale: Expr,
    a_zero_point: Expr | None = None,
    b_zero_point: Expr | None = None,
    bias: Expr | None = None,
) -> Expr:
    """Return A · B + bias of two quantised operands, as real numbers."""
    y = cast(exact_product(A, a_zero_point, B, b_zero_point), _FLOAT32) * (a_scale * as_scalar(b_scale))
    return y if bias is None else y + bias
