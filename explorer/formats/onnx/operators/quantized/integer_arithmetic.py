"""Quantised tensors: whole numbers with a scale and a zero point, for all elements, an axis, or blocks of one.

Nothing here is an operation of its own: a quantised product is recorded as the arithmetic that it stands for, so that
rules, fusion and values show where numbers are rounded. Products of 8-bit numbers are exact in floating numbers, whose
matrix products are fast: in float32 while sums stay below 2²⁴, in float64 beyond.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, normalize_axis
from explorer.formats.onnx.operators.base.operator_inputs import dtype_of
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.quantized.narrow_elements import limits, narrowed
from explorer.formats.onnx.operators.windows.conv import convolution
from explorer.formats.onnx.operators.windows.window_attributes import window_of
from explorer.net.definition.operator_definition import NARROW
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.elementwise.arithmetic import minimum
from explorer.ops.elementwise.hypot_copysign_gcd import fmax
from explorer.ops.elementwise.rounding_and_bits import round_half_even
from explorer.ops.nn.activation import clip

_EXACT = 1 << 24
"""up to this number float32 has every whole number"""
_EXACT_HALF = 1 << 11
"""up to this number float16 has every whole number"""


@operator("DequantizeLinear", ignored=("axis", "block_size"))
def dequantize(op: OperatorContext) -> Expr:
    """(x − zero point) · scale."""
    x, scale = required(op, "x"), required(op, "x_scale")
    if op.integer("output_dtype", 0):
        scale = cast(scale, dtype_of(op, "output_dtype"))
    if scale.dtype.name in NARROW:
        scale = cast(scale, np.dtype(np.float32))
    return _without(op, x, optional(op, "x_zero_point"), scale.dtype) * _spread(op, x, scale)


@operator("QuantizeLinear", ignored=("axis", "block_size", "saturate", "output_dtype"))
def quantize(op: OperatorContext) -> Expr:
    """x / scale, rounded to the nearest even number, plus the zero point, within the limits of its dtype."""
    op.only("precision", 0)
    x, scale, zero = required(op, "x"), required(op, "y_scale"), optional(op, "y_zero_point")
    if zero is not None:
        dtype = zero.dtype
    else:
        stated = op.integer("output_dtype", 0)
        dtype = dtype_of(op, "output_dtype", narrow=True) if stated else np.dtype(np.uint8)
    if dtype.kind not in "iu" and dtype.name not in NARROW:
        raise OperandError(
            f"quantised to {dtype.name}", rule="QuantizeLinear must give whole numbers, or floating ones of 8 or 4 bits"
        )
    if scale.dtype.name in NARROW:
        scale = cast(scale, np.dtype(np.float32))
    scaled = cast(x, scale.dtype) / _spread(op, x, scale)
    if dtype.name.startswith("float"):
        return narrowed(op, scaled, dtype)
    return saturated(scaled, None if zero is None else _spread(op, x, zero), dtype)


@operator("MatMulInteger")
def integer_product(op: OperatorContext) -> Expr:
    """The matrix product of whole numbers less their zero points, as int32."""
    a, b = required(op, "A"), required(op, "B")
    return cast(exact_product(a, optional(op, "a_zero_point"), b, optional(op, "b_zero_point")), np.dtype(np.int32))


@operator("QLinearMatMul")
def quantized_product(op: OperatorContext) -> Expr:
    """The matrix product of two quantised operands, quantised again."""
    a, b, zero = required(op, "a"), required(op, "b"), required(op, "y_zero_point")
    total = exact_product(a, required(op, "a_zero_point"), b, required(op, "b_zero_point"))
    factor = _rows(required(op, "a_scale")) * columns(required(op, "b_scale")) / _rows(required(op, "y_scale"))
    return saturated(rescaled(total, factor), _rows(zero), zero.dtype)


@operator("ConvInteger")
def integer_convolution(op: OperatorContext) -> Expr:
    """The convolution of whole numbers less their zero points, as int32."""
    x, filters = required(op, "x"), required(op, "w")
    total = _convolution(op, x, optional(op, "x_zero_point"), filters, optional(op, "w_zero_point"))
    return cast(total, np.dtype(np.int32))


@operator("QLinearConv")
def quantized_convolution(op: OperatorContext) -> Expr:
    """The convolution of quantised images and filters, plus a bias of whole numbers, quantised again."""
    x, filters, zero = required(op, "x"), required(op, "w"), required(op, "y_zero_point")
    total = _convolution(op, x, required(op, "x_zero_point"), filters, required(op, "w_zero_point"))
    axes = (1,) * (x.ndim - 2)
    if (bias := optional(op, "B")) is not None:
        total = total + cast(reshape(bias, (bias.size, *axes)), total.dtype)
    factor = (
        _as_scalar(required(op, "x_scale"))
        * _of_channels(required(op, "w_scale"), axes)
        / _as_scalar(required(op, "y_scale"))
    )
    return saturated(rescaled(total, factor), _as_scalar(zero), zero.dtype)


def rescaled(total: Expr, factor: Expr) -> Expr:
    """Return exact sums times a factor in the factor's precision, in which ONNX Runtime finds the nearest step, too."""
    return cast(total, factor.dtype) * factor


def saturated(scaled: Expr, zero: Expr | None, dtype: np.dtype[Any]) -> Expr:
    """Round scaled numbers, add the zero point, and keep them within the limits of a dtype; NaN is the lower limit."""
    rounded = round_half_even(scaled)
    low, high = limits(dtype)
    if rounded.dtype == np.float16 and high > _EXACT_HALF:
        rounded = cast(rounded, np.dtype(np.float32))
    if zero is not None:
        rounded = rounded + cast(zero, rounded.dtype)
    # the cast of NaN is 0, the lower limit of unsigned dtypes alone
    limited = minimum(fmax(rounded, low), high) if low < 0 else clip(rounded, low, high)
    return cast(limited, dtype)


def _without(op: OperatorContext, x: Expr, zero: Expr | None, dtype: np.dtype[Any]) -> Expr:
    """Return x less its zero point in a floating dtype."""
    wide = cast(x, dtype)
    return wide if zero is None else wide - cast(_spread(op, x, zero), dtype)


def _spread(op: OperatorContext, x: Expr, parameter: Expr) -> Expr:
    """Return a scale or zero point with the axes of x: one number, one for each place of an axis, or for its blocks."""
    if parameter.size == 1:
        return _as_scalar(parameter)
    axis = normalize_axis(op.integer("axis", 1), x.ndim, op.definition.type)
    if parameter.ndim == 1:
        if parameter.size != x.shape[axis]:
            raise _misfit(op, x, parameter)
        return reshape(parameter, (parameter.size, *[1] * (x.ndim - axis - 1)))
    size = op.integer("block_size", 0)
    blocks = (*x.shape[:axis], -(-x.shape[axis] // size) if size > 0 else -1, *x.shape[axis + 1 :])
    if parameter.shape != blocks:
        raise _misfit(op, x, parameter)
    split = (*blocks[: axis + 1], 1, *blocks[axis + 1 :])
    wide = (*blocks[: axis + 1], size, *blocks[axis + 1 :])
    repeated = reshape(broadcast_to(reshape(parameter, split), wide), _joined(wide, axis))
    # The last block of an axis may be shorter than the others.
    return repeated[(*[slice(None)] * axis, slice(0, x.shape[axis]))]


def _joined(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], prod(shape[axis : axis + 2]), *shape[axis + 2 :])


def _misfit(op: OperatorContext, x: Expr, parameter: Expr) -> OperandError:
    return OperandError(
        f"{x.type} with a scale or zero point {parameter.type}",
        rule=f"{op.definition.type}: there must be one for all elements, one for each place of the axis, or one for "
        "each block of block_size places",
    )


def _as_scalar(parameter: Expr) -> Expr:
    """Return a parameter of one element as a scalar."""
    return reshape(parameter, ()) if parameter.size == 1 and parameter.ndim else parameter


def _rows(parameter: Expr) -> Expr:
    """Return a parameter of the rows of matrices: a list has one for each row."""
    return (
        reshape(parameter, (parameter.size, 1)) if parameter.ndim == 1 and parameter.size > 1 else _as_scalar(parameter)
    )


def columns(parameter: Expr) -> Expr:
    """Return a parameter of the columns of matrices: a list has one for each column."""
    return _as_scalar(parameter)


def exact_product(a: Expr, a_zero: Expr | None, b: Expr, b_zero: Expr | None) -> Expr:
    """Return the matrix product of whole numbers less their zero points, as floating numbers that hold it exactly."""
    dtype = _exact(a, b, a.shape[-1] if a.ndim else 1)
    left = cast(a, dtype) if a_zero is None else cast(a, dtype) - cast(_rows(a_zero), dtype)
    right = cast(b, dtype) if b_zero is None else cast(b, dtype) - cast(columns(b_zero), dtype)
    return left @ right


def _convolution(op: OperatorContext, x: Expr, x_zero: Expr | None, filters: Expr, w_zero: Expr | None) -> Expr:
    dtype = _exact(x, filters, prod(filters.shape[1:]))
    axes = (1,) * (filters.ndim - 1)
    images = cast(x, dtype) if x_zero is None else cast(x, dtype) - cast(_as_scalar(x_zero), dtype)
    weights = cast(filters, dtype)
    if w_zero is not None:
        weights = weights - cast(_of_channels(w_zero, axes), dtype)
    return convolution(images, weights, None, **window_of(op, "group"))


def _of_channels(parameter: Expr, axes: Shape) -> Expr:
    """Return a parameter of filters: a list has one for each, followed by so many axes of size 1."""
    return _as_scalar(parameter) if parameter.size == 1 else reshape(parameter, (parameter.size, *axes))


def _exact(left: Expr, right: Expr, count: int) -> np.dtype[Any]:
    """Return the floating dtype that holds a sum of so many products of differences exactly."""
    for value in (left, right):
        if value.dtype.kind not in "iu":
            raise OperandError(f"an operand {value.type}", rule="quantised operands must be of whole numbers")
    largest = prod(int(np.iinfo(value.dtype).max) - int(np.iinfo(value.dtype).min) for value in (left, right))
    return np.dtype(np.float32 if largest * count <= _EXACT else np.float64)
