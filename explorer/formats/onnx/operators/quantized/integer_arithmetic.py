"""Quantised tensors: integers with a scale and a zero point per tensor, per index of an axis, or per block.

A quantised product is recorded as several arithmetic operations, so that rules and fusion apply to each of them, and
values show where numbers are rounded. Products of 8-bit integers use floating-point matrix products, which are faster
and exact: float32 if the sums stay below 2²⁴, otherwise float64.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, normalize_axis
from explorer.formats.onnx.operators.base.operator_inputs import dtype_of_code
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.quantized.narrow_elements import limits, narrowed
from explorer.formats.onnx.operators.windows.conv import convolution
from explorer.formats.onnx.operators.windows.window_attributes import WindowAttributes
from explorer.net.definition.operator_definition import NARROW
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.elementwise.arithmetic import minimum
from explorer.ops.elementwise.hypot_copysign_gcd import fmax
from explorer.ops.elementwise.rounding_and_bits import round_half_even
from explorer.ops.nn.activation import clip

_EXACT = 1 << 24
"""float32 represents all integers up to this number"""
_EXACT_HALF = 1 << 11
"""float16 represents all integers up to this number"""


@operator("DequantizeLinear")
def dequantize(
    x: Expr,
    x_scale: Expr,
    x_zero_point: Expr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Expr:
    """Return (x − zero point) · scale."""
    scale = _wide(cast(x_scale, dtype_of_code(output_dtype, "output_dtype")) if output_dtype else x_scale)
    numbers = cast(x, scale.dtype)
    if x_zero_point is not None:
        numbers = numbers - cast(_broadcast(x, x_zero_point, axis, block_size), scale.dtype)
    return numbers * _broadcast(x, scale, axis, block_size)


@operator("QuantizeLinear")
def quantize(
    x: Expr,
    y_scale: Expr,
    y_zero_point: Expr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: Literal[0] = 0,
    saturate: int = 1,
) -> Expr:
    """Return x / scale, rounded half to even, plus the zero point, clipped to the range of the result's dtype."""
    if y_zero_point is not None:
        dtype = y_zero_point.dtype
    else:
        dtype = dtype_of_code(output_dtype, "output_dtype", narrow=True) if output_dtype else np.dtype(np.uint8)
    if dtype.kind not in "iu" and dtype.name not in NARROW:
        raise OperandError(
            f"quantised to {dtype.name}",
            rule="QuantizeLinear must return integers, or floating-point numbers of 8 or 4 bits",
        )
    scale = _wide(y_scale)
    scaled = cast(x, scale.dtype) / _broadcast(x, scale, axis, block_size)
    if dtype.name.startswith("float"):
        return narrowed(scaled, dtype, saturate)
    return saturated(scaled, None if y_zero_point is None else _broadcast(x, y_zero_point, axis, block_size), dtype)


def _wide(scale: Expr) -> Expr:
    return cast(scale, np.dtype(np.float32)) if scale.dtype.name in NARROW else scale


@operator("MatMulInteger")
def integer_product(A: Expr, B: Expr, a_zero_point: Expr | None = None, b_zero_point: Expr | None = None) -> Expr:
    """Return the matrix product of integers minus their zero points, as int32."""
    return cast(exact_product(A, a_zero_point, B, b_zero_point), np.dtype(np.int32))


@operator("QLinearMatMul")
def quantized_product(
    a: Expr,
    a_scale: Expr,
    a_zero_point: Expr,
    b: Expr,
    b_scale: Expr,
    b_zero_point: Expr,
    y_scale: Expr,
    y_zero_point: Expr,
) -> Expr:
    """Return the requantised matrix product of two quantised operands."""
    total = exact_product(a, a_zero_point, b, b_zero_point)
    factor = _rows(a_scale) * as_scalar(b_scale) / _rows(y_scale)
    return saturated(rescaled(total, factor), _rows(y_zero_point), y_zero_point.dtype)


@operator("ConvInteger")
def integer_convolution(
    x: Expr,
    w: Expr,
    x_zero_point: Expr | None = None,
    w_zero_point: Expr | None = None,
    *,
    window: WindowAttributes,
    group: int = 1,
) -> Expr:
    """Return the convolution of integers minus their zero points, as int32."""
    return cast(_convolution(x, x_zero_point, w, w_zero_point, window, group), np.dtype(np.int32))


@operator("QLinearConv")
def quantized_convolution(
    x: Expr,
    x_scale: Expr,
    x_zero_point: Expr,
    w: Expr,
    w_scale: Expr,
    w_zero_point: Expr,
    y_scale: Expr,
    y_zero_point: Expr,
    B: Expr | None = None,
    *,
    window: WindowAttributes,
    group: int = 1,
) -> Expr:
    """Return the requantised convolution of quantised images and filters plus an integer bias."""
    total = _convolution(x, x_zero_point, w, w_zero_point, window, group)
    axes = (1,) * (x.ndim - 2)
    if B is not None:
        total = total + cast(reshape(B, (B.size, *axes)), total.dtype)
    factor = as_scalar(x_scale) * _of_channels(w_scale, axes) / as_scalar(y_scale)
    return saturated(rescaled(total, factor), as_scalar(y_zero_point), y_zero_point.dtype)


def rescaled(total: Expr, factor: Expr) -> Expr:
    """Return exact sums times ``factor``, in the precision of ``factor``, as in ONNX Runtime."""
    return cast(total, factor.dtype) * factor


def saturated(scaled: Expr, zero: Expr | None, dtype: np.dtype[Any]) -> Expr:
    """Round ``scaled``, add the zero point, and clip to the range of ``dtype``; NaN becomes the minimum."""
    rounded = round_half_even(scaled)
    low, high = limits(dtype)
    if rounded.dtype == np.float16 and high > _EXACT_HALF:
        rounded = cast(rounded, np.dtype(np.float32))
    if zero is not None:
        rounded = rounded + cast(zero, rounded.dtype)
    # NaN is cast to 0, which is the minimum only for unsigned dtypes
    limited = minimum(fmax(rounded, low), high) if low < 0 else clip(rounded, low, high)
    return cast(limited, dtype)


def _broadcast(x: Expr, parameter: Expr, axis: int, block_size: int) -> Expr:
    """Broadcast a scale or zero point to x; it is given per tensor, per index of an axis, or per block."""
    if parameter.size == 1:
        return as_scalar(parameter)
    axis = normalize_axis(axis, x.ndim, "a scale or zero point")
    if parameter.ndim == 1:
        if parameter.size != x.shape[axis]:
            raise _mismatch(x, parameter)
        return reshape(parameter, (parameter.size, *[1] * (x.ndim - axis - 1)))
    blocks = (*x.shape[:axis], -(-x.shape[axis] // block_size) if block_size > 0 else -1, *x.shape[axis + 1 :])
    if parameter.shape != blocks:
        raise _mismatch(x, parameter)
    split = (*blocks[: axis + 1], 1, *blocks[axis + 1 :])
    expanded = (*blocks[: axis + 1], block_size, *blocks[axis + 1 :])
    repeated = reshape(broadcast_to(reshape(parameter, split), expanded), _joined(expanded, axis))
    # The last block of an axis may be shorter.
    return repeated[(*[slice(None)] * axis, slice(0, x.shape[axis]))]


def _joined(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], prod(shape[axis : axis + 2]), *shape[axis + 2 :])


def _mismatch(x: Expr, parameter: Expr) -> OperandError:
    return OperandError(
        f"{x.type} with a scale or zero point {parameter.type}",
        rule="there must be one for all elements, one per index of the axis, or one per block of block_size",
    )


def as_scalar(parameter: Expr) -> Expr:
    """Return a one-element parameter as a scalar, and any other parameter, such as one per column, unchanged."""
    return reshape(parameter, ()) if parameter.size == 1 and parameter.ndim else parameter


def _rows(parameter: Expr) -> Expr:
    return (
        reshape(parameter, (parameter.size, 1)) if parameter.ndim == 1 and parameter.size > 1 else as_scalar(parameter)
    )


def exact_product(a: Expr, a_zero: Expr | None, b: Expr, b_zero: Expr | None) -> Expr:
    """Return the exact matrix product of integers minus their zero points, in a floating-point dtype."""
    dtype = _exact(a, b, a.shape[-1] if a.ndim else 1)
    left = cast(a, dtype) if a_zero is None else cast(a, dtype) - cast(_rows(a_zero), dtype)
    right = cast(b, dtype) if b_zero is None else cast(b, dtype) - cast(as_scalar(b_zero), dtype)
    return left @ right


def _convolution(
    x: Expr, x_zero: Expr | None, filters: Expr, w_zero: Expr | None, window: WindowAttributes, group: int
) -> Expr:
    dtype = _exact(x, filters, prod(filters.shape[1:]))
    axes = (1,) * (filters.ndim - 1)
    images = cast(x, dtype) if x_zero is None else cast(x, dtype) - cast(as_scalar(x_zero), dtype)
    weights = cast(filters, dtype)
    if w_zero is not None:
        weights = weights - cast(_of_channels(w_zero, axes), dtype)
    return convolution(images, weights, window=window, group=group)


def _of_channels(parameter: Expr, axes: Shape) -> Expr:
    """Return a parameter of filters; if it has one number per filter, append ``axes``, which have length 1."""
    return as_scalar(parameter) if parameter.size == 1 else reshape(parameter, (parameter.size, *axes))


def _exact(left: Expr, right: Expr, count: int) -> np.dtype[Any]:
    """Return the floating-point dtype that exactly represents a sum of ``count`` products of differences."""
    for value in (left, right):
        if value.dtype.kind not in "iu":
            raise OperandError(f"an operand {value.type}", rule="quantised operands must be integers")
    largest = prod(int(np.iinfo(value.dtype).max) - int(np.iinfo(value.dtype).min) for value in (left, right))
    return np.dtype(np.float32 if largest * count <= _EXACT else np.float64)
