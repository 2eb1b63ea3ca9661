"""Operators of quantised torch programs (``quantized_decomposed.*``), with torch's roundings.

torch multiplies by the reciprocal of a scale where ONNX divides by it, has limits of its own within those of the dtype,
and has scales of 64 bits: one number in some hundred thousand lies one step beside ONNX's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.operator_inputs import BFLOAT16, dtype_of
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import fold, is_given, is_known, optional, required, value_of, whole
from explorer.ops.base import cast, reshape
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import add, maximum, minimum, multiply, subtract, where
from explorer.ops.elementwise.rounding_and_bits import round_half_even
from explorer.ops.elementwise.unary import absolute
from explorer.ops.nn.activation import clip
from explorer.ops.reduction.reduce import max, min

_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_LEAST = 1e-5
"""least extent of a token whose scale is chosen"""
_LIMITS = {"int8": (-128, 127)}
"""dtypes that tokens are quantised to"""
_DOMAIN = "quantized_decomposed"
_OF_ELEMENTS = ("dtype", "quant_min", "quant_max")
"""what is said of the whole numbers, which have a dtype and lie within these limits already"""


@operator(f"{_DOMAIN}.quantize_per_tensor")
def quantize_tensor(op: OperatorContext) -> Expr:
    """x · (1 / scale), rounded to the nearest even number, plus the zero point, within the limits."""
    x, scale, zero = cast(_x(op), _FLOAT32), _one(op, 1), _one(op, 2, "zero_point")
    if is_known(scale) and not value_of(scale) > 0:
        raise OperandError(
            f"scale={value_of(scale)}", rule=f"{op.definition.type}: the scale must be positive: numbers are over it"
        )
    # the reciprocal is of 64 bits, the product of 32
    factor = cast(1 / cast(scale, _FLOAT64), _FLOAT32)
    rounded = round_half_even(x * (fold(factor) if is_known(scale) else factor))
    return _within(op, rounded + cast(zero, _FLOAT32))


@operator(f"{_DOMAIN}.dequantize_per_tensor", ignored=_OF_ELEMENTS)
def dequantize_tensor(op: OperatorContext) -> Expr:
    """(x − zero point) · scale."""
    x, scale, zero = _x(op), _one(op, 1), _one(op, 2, "zero_point")
    dtype = _result(op, "out_dtype")
    difference = cast(cast(x, dtype) - cast(zero, dtype), _FLOAT32)
    return cast(difference * cast(scale, _FLOAT32), dtype)


@operator(f"{_DOMAIN}.quantize_per_channel")
def quantize_channels(op: OperatorContext) -> Expr:
    """The same, with a scale and a zero point for each place of an axis."""
    x = cast(_x(op), _FLOAT32)
    scale, zero = _of_axis(op, x, 1), _of_axis(op, x, 2)
    return _within(op, _of_one_dtype(add, round_half_even(x * (1 / scale)), zero))


@operator(f"{_DOMAIN}.dequantize_per_channel", ignored=_OF_ELEMENTS)
def dequantize_channels(op: OperatorContext) -> Expr:
    """(x − zero point) · scale, with one of each for each place of an axis; zero points may be left out."""
    x = _x(op)
    scale = _of_axis(op, x, 1)
    difference = _of_one_dtype(subtract, x, _of_axis(op, x, 2)) if optional(op, "input 2") is not None else x
    return cast(_of_one_dtype(multiply, difference, scale), _result(op, "out_dtype"))


@operator(f"{_DOMAIN}.quantize_per_token")
def quantize_tokens(op: OperatorContext) -> Expr:
    """x · (1 / scale) plus the zero point, then rounded, with one of each for each row of the last axis."""
    x = _x(op)
    number = _of_one_dtype(add, x * (1 / _of_rows(op, x, 1)), _of_rows(op, x, 2))
    return _within(op, round_half_even(number))


@operator(f"{_DOMAIN}.dequantize_per_token", ignored=_OF_ELEMENTS)
def dequantize_tokens(op: OperatorContext) -> Expr:
    """(x − zero point) · scale, with one of each for each row of the last axis."""
    x = _x(op)
    difference = _of_one_dtype(subtract, x, _of_rows(op, x, 2))
    return cast(_of_one_dtype(multiply, difference, _of_rows(op, x, 1)), _result(op, "output_dtype"))


@operator(f"{_DOMAIN}.dequantize_per_channel_group", ignored=_OF_ELEMENTS)
def dequantize_groups(op: OperatorContext) -> Expr:
    """(x − zero point) · scale of a matrix, with one of each for each group of a row."""
    x, scale, zero = _x(op), required(op, "input 1"), optional(op, "input 2")
    size = op.integer("group_size")
    if x.ndim == 2 and scale.ndim and scale.shape[-1] == 1 and size > x.shape[1]:
        size = x.shape[1]
    if (
        x.ndim != 2
        or size < 1
        or x.shape[1] % size
        or any(p.size * size != x.size for p in (scale, zero) if p is not None)
    ):
        raise OperandError(
            f"a matrix {x.type}, groups of {size}, scales {scale.type}",
            rule=f"{op.definition.type}: groups must divide the rows of a matrix, with a scale for each",
        )
    groups = reshape(x, (x.size // size, size))
    difference = groups if zero is None else _of_one_dtype(subtract, groups, reshape(zero, (-1, 1)))
    product = _of_one_dtype(multiply, difference, reshape(scale, (-1, 1)))
    return cast(reshape(product, x.shape), _result(op, "output_dtype"))


@operator(f"{_DOMAIN}.choose_qparams", f"{_DOMAIN}.choose_qparams_symmetric")
def choose(op: OperatorContext) -> tuple[Expr, Expr]:
    """The scale and zero point by which the limits hold all elements and zero: float64 (1,), int64 (1,)."""
    x, (low, high) = _x(op), _limits(op)
    if not x.size or x.dtype.kind != "f":
        raise OperandError(
            f"input is {x.type}", rule=f"{op.definition.type}: there must be an element, and all must be real numbers"
        )
    if not low <= 0 <= high:
        raise OperandError(
            f"quant_min={low}, quant_max={high}", rule=f"{op.definition.type}: 0 must lie within the limits"
        )
    eps = np.float32(op.number("eps"))
    least, most = minimum(min(x), 0), maximum(max(x), 0)
    if op.definition.type.endswith("symmetric"):
        scale = maximum(maximum(-least, most) / x.dtype.type((high - low) / 2), eps)
        middle = 128 if dtype_of(op, "dtype") == np.uint8 else 0
        zero: Expr = tensor(np.int64(middle))
    else:
        scale = maximum((most - least) / x.dtype.type(high - low), eps)
        zero = clip(low - cast(round_half_even(least / scale), _INT64), low, high)
    return reshape(cast(scale, _FLOAT64), (1,)), reshape(zero, (1,))


@operator(f"{_DOMAIN}.choose_qparams_per_token")
def choose_for_tokens(op: OperatorContext) -> tuple[Expr, Expr]:
    """Scales of the rows of the last axis (…, 1), by which int8 holds the largest element; zero points are 0."""
    _of_bytes(op)
    largest = max(absolute(_x(op)), -1, keepdims=True)
    if largest.dtype == np.float16:
        largest = cast(largest, _FLOAT32)
    scale = maximum(largest, largest.dtype.type(_LEAST)) / 127
    return scale, zeros(scale.shape, scale.dtype)


@operator(f"{_DOMAIN}.choose_qparams_per_token_asymmetric")
def choose_for_tokens_asymmetric(op: OperatorContext) -> tuple[Expr, Expr]:
    """Scales and zero points of the rows of the last axis (…, 1), by which int8 holds all elements and zero."""
    low, high = _of_bytes(op)
    x = _x(op)
    least, most = minimum(min(x, -1, keepdims=True), 0), maximum(max(x, -1, keepdims=True), 0)
    scale = maximum((most - least) / x.dtype.type(high - low), x.dtype.type(np.finfo(np.float32).eps))
    first, last = least / scale, most / scale
    # the end whose error is smaller decides
    zero = where((low + first) + (high + last) > 0, low - first, high - last)
    return cast(scale, _FLOAT64), cast(round_half_even(clip(zero, low, high)), _INT64)


def _x(op: OperatorContext) -> Expr:
    return required(op, "input 0")


def _of_one_dtype(records: Callable[[Expr, Expr], Expr], x: Expr, y: Expr) -> Expr:
    """Return a function of two operands; whole numbers take the dtype of real ones first, as torch has it."""
    real = [value.dtype for value in (x, y) if value.dtype.kind == "f"]
    return records(cast(x, real[0]), cast(y, real[0])) if len(real) == 1 else records(x, y)


def _one(op: OperatorContext, place: int, name: str = "scale") -> Expr:
    """Return a scale or zero point of all elements: an input of one element, or an attribute."""
    value: Any = optional(op, f"input {place}")
    if value is None:
        return tensor(np.int64(op.integer(name)))
    if value.size != 1:
        raise OperandError(f"{name} is {value.type}", rule=f"{op.definition.type}: {name} must be one number")
    return reshape(value, ())


def _of_axis(op: OperatorContext, x: Expr, place: int) -> Expr:
    """Return scales or zero points of the places of an axis, in the form of x."""
    value, axis = required(op, f"input {place}"), normalize_axis(op.integer("axis"), x.ndim, op.definition.type)
    if value.shape != (x.shape[axis],):
        raise OperandError(
            f"{value.type} for axis {axis} of {x.type}",
            rule=f"{op.definition.type}: there must be one scale and zero point for each place of the axis",
        )
    return reshape(value, (value.size, *[1] * (x.ndim - axis - 1)))


def _of_rows(op: OperatorContext, x: Expr, place: int) -> Expr:
    """Return scales or zero points of the rows of the last axis, in the form of x."""
    value = required(op, f"input {place}")
    if not x.ndim or value.shape != (*x.shape[:-1], 1):
        raise OperandError(
            f"{value.type} for {x.type}",
            rule=f"{op.definition.type}: scales and zero points must have the shape of the input, with 1 at the end",
        )
    return value


def _limits(op: OperatorContext) -> tuple[int, int]:
    """Return the least and the largest number, which the dtype must hold."""
    dtype, names = dtype_of(op, "dtype"), ("quant_min", "quant_max")
    if dtype.kind not in "iu":
        raise OperandError(f"dtype={dtype.name}", rule=f"{op.definition.type}: dtype must be one of whole numbers")
    info = np.iinfo(dtype)
    low, high = [
        op.integer(name) if is_given(op, name) else whole(op, f"input {place}") for place, name in enumerate(names, 3)
    ]
    if not info.min <= low < high <= info.max:
        raise OperandError(
            f"quant_min={low}, quant_max={high}",
            rule=f"{op.definition.type}: they must rise, within {info.min} and {info.max} of {info.dtype.name}",
        )
    return low, high


def _within(op: OperatorContext, numbers: Expr) -> Expr:
    return cast(clip(numbers, *_limits(op)), dtype_of(op, "dtype"))


def _of_bytes(op: OperatorContext) -> tuple[int, int]:
    dtype = dtype_of(op, "dtype")
    if dtype.name not in _LIMITS:
        raise OperandError(f"dtype={dtype.name}", rule=f"{op.definition.type}: dtype must be int8")
    return _LIMITS[dtype.name]


def _result(op: OperatorContext, name: str) -> np.dtype[Any]:
    """Return the dtype of real numbers; bfloat16 is held as float32."""
    return _FLOAT32 if op.integer(name, 1) in (-1, BFLOAT16) else dtype_of(op, name, 1)
