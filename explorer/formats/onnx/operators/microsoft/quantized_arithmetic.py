"""Quantised arithmetic of the domain com.microsoft: operands are dequantised, computed with, and quantised again."""

from __future__ import annotations

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.formats.common.known_inputs import optional, required
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.quantized.integer_arithmetic import columns, exact_product, saturated
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import maximum, minimum, where
from explorer.ops.elementwise.rounding_and_bits import round_half_even
from explorer.ops.elementwise.unary import sigmoid
from explorer.ops.nn.activation import clip, leaky_relu
from explorer.ops.reduction.reduce import max as greatest
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


@operator("com.microsoft.DynamicQuantizeMatMul")
def dynamically_quantized_product(op: OperatorContext) -> Expr:
    """A · B + bias: A is quantised to 8 bits between its own extremes, B is quantised in the file."""
    a, b, scale, zero = (
        required(op, "input 0"),
        required(op, "input 1"),
        required(op, "input 2"),
        optional(op, "input 3"),
    )
    # 0 must be among the numbers that are kept exactly: padding and activations give it everywhere.
    low, high = minimum(least(a), np.float32(0)), maximum(greatest(a), np.float32(0))
    step = where(high > low, (high - low) / np.float32(255), np.float32(1))
    middle = clip(round_half_even(-low / step), 0.0, 255.0)
    whole = saturated(a / step, middle, np.dtype(np.uint8))
    product = exact_product(whole, cast(middle, whole.dtype), b, zero)
    return _plus_bias(op, cast(product, _FLOAT32) * (step * columns(scale)), 4)


@operator("com.microsoft.MatMulIntegerToFloat")
def real_product(op: OperatorContext) -> Expr:
    """A · B + bias of two quantised operands, as real numbers."""
    a, b = required(op, "input 0"), required(op, "input 1")
    product = exact_product(a, optional(op, "input 4"), b, optional(op, "input 5"))
    factor = required(op, "input 2") * columns(required(op, "input 3"))
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


def _quantized(op: OperatorContext, place: int, result: Expr) -> Expr:
    """Quantise a result by the scale and the zero point at a place, in the dtype of the first operand."""
    return saturated(
        result / required(op, f"input {place}"), optional(op, f"input {place + 1}"), required(op, "input 0").dtype
    )
