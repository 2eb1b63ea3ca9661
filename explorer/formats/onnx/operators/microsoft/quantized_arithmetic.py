"""Quantised arithmetic of the domain com.microsoft: operands are dequantised, computed with, and quantised again."""

from __future__ import annotations

from math import prod

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.quantized.integer_arithmetic import as_scalar, exact_product, saturated
from explorer.formats.onnx.operators.windows.pooling import whole_averages
from explorer.formats.onnx.operators.windows.window_attributes import window_of
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_given, optional, required
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


@operator("com.microsoft.QLinearAdd")
def quantized_sum(op: OperatorContext) -> Expr:
    """The sum of two quantised operands, quantised again."""
    return _quantized(op, 6, _dequantized(op, 0) + _dequantized(op, 3))


@operator("com.microsoft.QLinearMul")
def quantized_multiple(op: OperatorContext) -> Expr:
    """The product of two quantised operands, element by element, quantised again."""
    return _quantized(op, 6, _dequantized(op, 0) * _dequantized(op, 3))


@operator("com.microsoft.QLinearSigmoid")
def quantized_sigmoid(op: OperatorContext) -> Expr:
    """The sigmoid of a quantised operand, quantised again."""
    return _quantized(op, 3, sigmoid(_dequantized(op, 0)))


@operator("com.microsoft.QLinearLeakyRelu")
def quantized_leaky_relu(op: OperatorContext) -> Expr:
    """The leaky ReLU of a quantised operand, quantised again."""
    return _quantized(op, 3, leaky_relu(_dequantized(op, 0), op.number("alpha", 0.01)))


@operator("com.microsoft.QLinearAveragePool")
def quantized_average_pool(op: OperatorContext) -> Expr:
    """The mean of each window of a quantised operand, quantised again.

    The zero point is added before the mean is rounded, which decides where a mean lies half-way between two numbers.
    Where padding counts, what a last window has beyond it counts, too.
    """
    op.only("channels_last", 0)
    window = window_of(op, "ceil_mode", "count_include_pad")
    scaled = whole_averages(_dequantized(op, 0), **window) / required(op, "input 3")
    zero, dtype = optional(op, "input 4"), required(op, "input 0").dtype
    return saturated(scaled if zero is None else scaled + cast(zero, scaled.dtype), None, dtype)


@operator("com.microsoft.QLinearGlobalAveragePool")
def quantized_global_average_pool(op: OperatorContext) -> Expr:
    """The mean of each channel of a quantised operand, quantised again."""
    x = _dequantized(op, 0)
    axes = range(1, x.ndim - 1) if op.integer("channels_last", 0) else range(2, x.ndim)
    return _quantized(op, 3, mean(x, tuple(axes), keepdims=True))


@operator("com.microsoft.QLinearSoftmax")
def quantized_softmax(op: OperatorContext) -> Expr:
    """The softmax of a quantised operand along an axis, quantised again; before opset 13 from that axis on."""
    x, is_old = _dequantized(op, 0), op.integer("opset", 13) < 13
    axis = normalize_axis(op.integer("axis", 1 if is_old else -1), x.ndim, op.definition.type)
    if is_old:
        rows = reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        return _quantized(op, 3, reshape(softmax(rows, -1), x.shape))
    return _quantized(op, 3, softmax(x, axis))


@operator("com.microsoft.QLinearConcat")
def quantized_concatenation(op: OperatorContext) -> Expr:
    """Quantised operands one after the other along an axis, quantised again by one scale."""
    parts: list[Expr] = []
    while is_given(op, f"input {3 * len(parts) + 2}"):
        parts.append(_dequantized(op, 3 * len(parts) + 2))
    return _quantized(op, 0, concatenate(parts, op.integer("axis")), 2)


@operator("com.microsoft.QLinearWhere")
def quantized_choice(op: OperatorContext) -> Expr:
    """Elements of one of two quantised operands, as a condition says, quantised again."""
    chosen = where(required(op, "input 0"), _dequantized(op, 1), _dequantized(op, 4))
    return _quantized(op, 7, chosen, 1)


@operator("com.microsoft.QGemm")
def quantized_general_product(op: OperatorContext) -> Expr:
    """alpha · A · B + C of quantised matrices, quantised again where a scale is given, else as real numbers."""
    a, b = (
        transpose(required(op, f"input {place}"), (1, 0)) if op.integer(name, 0) else required(op, f"input {place}")
        for place, name in ((0, "transA"), (3, "transB"))
    )
    total = exact_product(a, required(op, "input 2"), b, required(op, "input 5"))
    if (bias := optional(op, "input 6")) is not None:
        total = total + cast(bias, total.dtype)
    factor = as_scalar(required(op, "input 1")) * as_scalar(required(op, "input 4"))
    if (alpha := op.number("alpha", 1.0)) != 1:
        factor = alpha * factor
    scale = optional(op, "input 7")
    if scale is None:
        return cast(total, _FLOAT32) * factor
    return saturated(total * (factor / as_scalar(scale)), as_scalar(required(op, "input 8")), a.dtype)


@operator("com.microsoft.DynamicQuantizeMatMul")
def dynamically_quantized_product(op: OperatorContext) -> Expr:
    """A · B + bias: A is quantised to 8 bits between its own extremes, B is quantised in the file."""
    a, b, scale, zero = (
        required(op, "input 0"),
        required(op, "input 1"),
        required(op, "input 2"),
        optional(op, "input 3"),
    )
    return _plus_bias(op, product_on_the_way(a, b, scale, zero), 4)


def product_on_the_way(a: Expr, b: Expr, scale: Expr, zero: Expr | None, extent: Expr | None = None) -> Expr:
    """Return A · B in float32: A is quantised to 8 bits between its own extremes, B has its scale and zero point.

    ``extent`` is the array whose extremes count, A by default.
    """
    extent = a if extent is None else extent
    # 0 must be among the numbers that are kept exactly: padding and activations give it everywhere.
    low, high = minimum(least(extent), np.float32(0)), maximum(greatest(extent), np.float32(0))
    step = where(high > low, (high - low) / np.float32(255), np.float32(1))
    middle = clip(round_half_even(-low / step), 0.0, 255.0)
    whole = saturated(a / step, middle, np.dtype(np.uint8))
    product = exact_product(whole, cast(middle, whole.dtype), b, zero)
    return cast(product, _FLOAT32) * (step * as_scalar(scale))


@operator("com.microsoft.MatMulIntegerToFloat")
def real_product(op: OperatorContext) -> Expr:
    """A · B + bias of two quantised operands, as real numbers."""
    a, b = required(op, "input 0"), required(op, "input 1")
    product = exact_product(a, optional(op, "input 4"), b, optional(op, "input 5"))
    factor = required(op, "input 2") * as_scalar(required(op, "input 3"))
    return _plus_bias(op, cast(product, _FLOAT32) * factor, 6)


def _plus_bias(op: OperatorContext, x: Expr, place: int) -> Expr:
    bias = optional(op, f"input {place}")
    return x if bias is None else x + bias


def _dequantized(op: OperatorContext, place: int) -> Expr:
    """Return the numbers of a quantised operand, which a scale and a zero point follow."""
    x, scale, zero = (
        required(op, f"input {place}"),
        required(op, f"input {place + 1}"),
        optional(op, f"input {place + 2}"),
    )
    wide = cast(x, scale.dtype)
    return (wide if zero is None else wide - cast(zero, scale.dtype)) * scale


def _quantized(op: OperatorContext, place: int, result: Expr, like: int = 0) -> Expr:
    """Quantise a result by the scale and the zero point at a place, in the dtype of the operand at another one."""
    return saturated(
        result / required(op, f"input {place}"),
        optional(op, f"input {place + 1}"),
        required(op, f"input {like}").dtype,
    )
