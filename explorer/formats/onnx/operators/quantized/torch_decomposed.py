"""Operators of quantised torch programs (``quantized_decomposed.*``), with torch's rounding.

torch multiplies by the reciprocal of a scale, while ONNX divides by the scale, so that about one in several hundred
thousand results differs by one step. torch also has explicit limits and 64-bit scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.operator_inputs import BFLOAT16, dtype_of_code
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.known_inputs import fold, is_known, value_of
from explorer.net.operators.signature import Known, Names, Unused
from explorer.ops.base import cast, reshape
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import add, maximum, minimum, multiply, subtract, where
from explorer.ops.elementwise.rounding_and_bits import round_half_even
from explorer.ops.elementwise.unary import absolute
from explorer.ops.nn.activation import clip
from explorer.ops.reduction.reduce import max, min

_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_MINIMUM_RANGE = 1e-5
"""minimum range of a token's elements from which its scale is computed"""
_FLOAT = 1
"""ONNX's dtype code of float32"""
_DOMAIN = "quantized_decomposed"
OfElements = Annotated[Unused, Names("dtype", "quant_min", "quant_max")]
"""ignored, because the integers already have this dtype and are within these limits"""


@operator(f"{_DOMAIN}.quantize_per_tensor")
def quantize_tensor(
    input: Expr, scale: Expr, zero_point: Expr, quant_min: Known[int], quant_max: Known[int], *, dtype: int
) -> Expr:
    """Return x · (1 / scale), rounded half to even, plus the zero point, clipped to the given range."""
    x, scale, zero = cast(input, _FLOAT32), _scalar("scale", scale), _scalar("zero_point", zero_point)
    if is_known(scale) and not value_of(scale) > 0:
        raise OperandError(f"scale={value_of(scale)}", rule="the scale must be positive")
    # compute the reciprocal in 64 bits, the product in 32
    factor = cast(1 / cast(scale, _FLOAT64), _FLOAT32)
    rounded = round_half_even(x * (fold(factor) if is_known(scale) else factor))
    return _within(rounded + cast(zero, _FLOAT32), quant_min, quant_max, dtype)


@operator(f"{_DOMAIN}.dequantize_per_tensor")
def dequantize_tensor(
    input: Expr, scale: Expr, zero_point: Expr, *, of_elements: OfElements, out_dtype: int = _FLOAT
) -> Expr:
    """Return (x − zero point) · scale."""
    dtype = _result(out_dtype)
    difference = cast(cast(input, dtype) - cast(_scalar("zero_point", zero_point), dtype), _FLOAT32)
    return cast(difference * cast(_scalar("scale", scale), _FLOAT32), dtype)


@operator(f"{_DOMAIN}.quantize_per_channel")
def quantize_channels(
    input: Expr,
    scales: Expr,
    zero_points: Expr,
    quant_min: Known[int],
    quant_max: Known[int],
    *,
    axis: int,
    dtype: int,
) -> Expr:
    """Quantise like ``quantize_tensor``, with a scale and a zero point per index of an axis."""
    x = cast(input, _FLOAT32)
    scale, zero = _of_axis(scales, x, axis), _of_axis(zero_points, x, axis)
    numbers = _with_one_dtype(add, round_half_even(x * (1 / scale)), zero)
    return _within(numbers, quant_min, quant_max, dtype)


@operator(f"{_DOMAIN}.dequantize_per_channel")
def dequantize_channels(
    input: Expr,
    scales: Expr,
    zero_points: Expr | None = None,
    *,
    axis: int,
    of_elements: OfElements,
    out_dtype: int = _FLOAT,
) -> Expr:
    """Return (x − zero point) · scale, with a scale and an optional zero point per index of an axis."""
    scale, difference = _of_axis(scales, input, axis), input
    if zero_points is not None:
        difference = _with_one_dtype(subtract, input, _of_axis(zero_points, input, axis))
    return cast(_with_one_dtype(multiply, difference, scale), _result(out_dtype))


@operator(f"{_DOMAIN}.quantize_per_token")
def quantize_tokens(
    input: Expr, scales: Expr, zero_points: Expr, quant_min: Known[int], quant_max: Known[int], *, dtype: int
) -> Expr:
    """Return x · (1 / scale) + zero point, rounded, with a scale and a zero point per row of the last axis."""
    number = _with_one_dtype(add, input * (1 / _of_rows(scales, input)), _of_rows(zero_points, input))
    return _within(round_half_even(number), quant_min, quant_max, dtype)


@operator(f"{_DOMAIN}.dequantize_per_token")
def dequantize_tokens(
    input: Expr, scales: Expr, zero_points: Expr, *, of_elements: OfElements, output_dtype: int = _FLOAT
) -> Expr:
    """Return (x − zero point) · scale, with a scale and a zero point per row of the last axis."""
    difference = _with_one_dtype(subtract, input, _of_rows(zero_points, input))
    return cast(_with_one_dtype(multiply, difference, _of_rows(scales, input)), _result(output_dtype))


@operator(f"{_DOMAIN}.dequantize_per_channel_group")
def dequantize_groups(
    input: Expr,
    scales: Expr,
    zero_points: Expr | None = None,
    *,
    of_elements: OfElements,
    group_size: int,
    output_dtype: int = _FLOAT,
) -> Expr:
    """Return (x − zero point) · scale of a matrix, with a scale and a zero point per group of elements in a row."""
    x, size = input, group_size
    if x.ndim == 2 and scales.ndim and scales.shape[-1] == 1 and size > x.shape[1]:
        size = x.shape[1]
    if (
        x.ndim != 2
        or size < 1
        or x.shape[1] % size
        or any(p.size * size != x.size for p in (scales, zero_points) if p is not None)
    ):
        raise OperandError(
            f"a matrix {x.type}, groups of {size}, scales {scales.type}",
            rule="the group size must divide the length of a matrix's rows, and there must be a scale per group",
        )
    groups = reshape(x, (x.size // size, size))
    difference = groups if zero_points is None else _with_one_dtype(subtract, groups, reshape(zero_points, (-1, 1)))
    product = _with_one_dtype(multiply, difference, reshape(scales, (-1, 1)))
    return cast(reshape(product, x.shape), _result(output_dtype))


@operator(f"{_DOMAIN}.choose_qparams")
def choose(input: Expr, *, quant_min: int, quant_max: int, eps: float, dtype: int) -> tuple[Expr, Expr]:
    """Return the scale and zero point that map all elements and 0 into the limits: float64 (1,), int64 (1,)."""
    _check_choice(input, quant_min, quant_max, dtype)
    least, most = minimum(min(input), 0), maximum(max(input), 0)
    scale = maximum((most - least) / input.dtype.type(quant_max - quant_min), np.float32(eps))
    zero = clip(quant_min - cast(round_half_even(least / scale), _INT64), quant_min, quant_max)
    return reshape(cast(scale, _FLOAT64), (1,)), reshape(zero, (1,))


@operator(f"{_DOMAIN}.choose_qparams_symmetric")
def choose_symmetric(input: Expr, *, quant_min: int, quant_max: int, eps: float, dtype: int) -> tuple[Expr, Expr]:
    """Return a scale and zero point like ``choose``, with the zero point in the middle of the dtype's range."""
    _check_choice(input, quant_min, quant_max, dtype)
    largest = maximum(-minimum(min(input), 0), maximum(max(input), 0))
    scale = maximum(largest / input.dtype.type((quant_max - quant_min) / 2), np.float32(eps))
    zero = 128 if dtype_of_code(dtype, "dtype") == np.uint8 else 0
    return reshape(cast(scale, _FLOAT64), (1,)), reshape(tensor(np.int64(zero)), (1,))


def _check_choice(x: Expr, low: int, high: int, dtype: int) -> None:
    _check_limits(low, high, dtype)
    if not x.size or x.dtype.kind != "f":
        raise OperandError(f"input is {x.type}", rule="the input must be real numbers, and not empty")
    if not low <= 0 <= high:
        raise OperandError(f"quant_min={low}, quant_max={high}", rule="0 must be within the limits")


@operator(f"{_DOMAIN}.choose_qparams_per_token")
def choose_for_tokens(input: Expr, *, dtype: int) -> tuple[Expr, Expr]:
    """Return row scales (…, 1) that map the largest magnitude to 127, and zero points of 0."""
    _int8_limits(dtype)
    largest = max(absolute(input), -1, keepdims=True)
    if largest.dtype == np.float16:
        largest = cast(largest, _FLOAT32)
    scale = maximum(largest, largest.dtype.type(_MINIMUM_RANGE)) / 127
    return scale, zeros(scale.shape, scale.dtype)


@operator(f"{_DOMAIN}.choose_qparams_per_token_asymmetric")
def choose_for_tokens_asymmetric(input: Expr, *, dtype: int) -> tuple[Expr, Expr]:
    """Return row scales and zero points (…, 1) that map all elements and 0 into int8."""
    (low, high), x = _int8_limits(dtype), input
    least, most = minimum(min(x, -1, keepdims=True), 0), maximum(max(x, -1, keepdims=True), 0)
    scale = maximum((most - least) / x.dtype.type(high - low), x.dtype.type(np.finfo(np.float32).eps))
    low_quotient, high_quotient = least / scale, most / scale
    # the limit with the smaller error determines the zero point
    zero = where((low + low_quotient) + (high + high_quotient) > 0, low - low_quotient, high - high_quotient)
    return cast(scale, _FLOAT64), cast(round_half_even(clip(zero, low, high)), _INT64)


def _with_one_dtype(operation: Callable[[Expr, Expr], Expr], x: Expr, y: Expr) -> Expr:
    """Return ``operation`` of x and y; an integer operand is first cast to the other operand's dtype, as in torch."""
    real = [value.dtype for value in (x, y) if value.dtype.kind == "f"]
    return operation(cast(x, real[0]), cast(y, real[0])) if len(real) == 1 else operation(x, y)


def _scalar(name: str, value: Expr) -> Expr:
    if value.size != 1:
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must be one number")
    return reshape(value, ())


def _of_axis(value: Expr, x: Expr, axis: int) -> Expr:
    """Return scales or zero points of an axis, reshaped to broadcast to x."""
    axis = normalize_axis(axis, x.ndim, "a scale of channels")
    if value.shape != (x.shape[axis],):
        raise OperandError(
            f"{value.type} for axis {axis} of {x.type}",
            rule="there must be one scale and zero point per index of the axis",
        )
    return reshape(value, (value.size, *[1] * (x.ndim - axis - 1)))


def _of_rows(value: Expr, x: Expr) -> Expr:
    if not x.ndim or value.shape != (*x.shape[:-1], 1):
        raise OperandError(
            f"{value.type} for {x.type}",
            rule="scales and zero points must have the input's shape, except that the last axis must have length 1",
        )
    return value


def _check_limits(low: int, high: int, code: int) -> np.dtype[Any]:
    """Return the dtype with the code ``code``; raise OperandError unless the limits are within its range."""
    dtype = dtype_of_code(code, "dtype")
    if dtype.kind not in "iu":
        raise OperandError(f"dtype={dtype.name}", rule="dtype must be an integer dtype")
    info = np.iinfo(dtype)
    if not info.min <= low < high <= info.max:
        raise OperandError(
            f"quant_min={low}, quant_max={high}",
            rule=f"quant_min must be less than quant_max, both within {info.min} … {info.max} of {info.dtype.name}",
        )
    return dtype


def _within(numbers: Expr, low: int, high: int, dtype: int) -> Expr:
    elements = _check_limits(low, high, dtype)
    return cast(clip(numbers, low, high), elements)


def _int8_limits(dtype: int) -> tuple[int, int]:
    elements = dtype_of_code(dtype, "dtype")
    if elements != np.int8:
        raise OperandError(f"dtype={elements.name}", rule="dtype must be int8")
    return -128, 127


def _result(dtype: int) -> np.dtype[Any]:
    """Return the real dtype with the code ``dtype``; bfloat16 is stored as float32."""
    return _FLOAT32 if dtype in (-1, BFLOAT16) else dtype_of_code(dtype, "the dtype of the result")
