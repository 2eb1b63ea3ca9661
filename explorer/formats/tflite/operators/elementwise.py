"""Elementwise functions, arithmetic and comparisons with broadcasting, and casts.

Quantised operands are computed as in TensorFlow Lite's kernels. The operands of a sum are first converted to a common
finer scale. A quotient is computed by multiplying by the divisor's reciprocal, which is looked up in a table. The zero
points of 16-bit operands are 0.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import function
from explorer.formats.common.operator_checks import with_one_dtype
from explorer.formats.tflite.operators.activation import apply_activation, check_float
from explorer.formats.tflite.operators.fixed_point import reciprocals
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT64,
    Activation,
    check_dtypes,
    is_quantized,
    quantized_multipliers,
    requantize,
    rescale,
    result_limits,
    saturated_cast,
    scale_and_zero_point,
)
from explorer.formats.tflite.operators.quantized_tables import look_up
from explorer.formats.tflite.operators.table import operator
from explorer.names.operations import BINARY, UNARY, names_in
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Unused
from explorer.ops import base
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import maximum, where
from explorer.ops.elementwise.rounding_and_bits import trunc
from explorer.ops.elementwise.unary import absolute, sign, sqrt, square
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.activation import clip

_TABLES = ("ABS", "EXP", "LOG", "RSQRT")
"""operator types that are computed with look-up tables for quantised operands"""
_EXTREMES = ("MAXIMUM", "MINIMUM")
"""operator types that return elements of their operands"""
_COMPARISONS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
_FLOATING = ("POW", "ATAN2")
"""operator types that are supported only for floats, because integer results are rounded by special rules"""
_SEPARATE = ("DIV", "SUB", "NEG", "SQRT")
"""operator types with separate functions below"""
_FLOAT64 = np.float64
_FINER, _FINER_WIDE = 20, 15
"""number of bits by which an 8-bit sum, or a 16-bit sum, is finer than twice the larger operand scale"""
_FINER_SQUARE = 7
"""number of bits by which a difference is finer before it is squared"""
_FINER_COMPARISON = 8
"""number of bits by which operands are finer in comparisons"""
_LOG_TOLERANCE = 1e-3
"""maximum deviation from an integer of the logarithm of a power-of-two scale"""
_MAX_SHIFT = 31
"""maximum number of bits by which a 16-bit operand is shifted"""
_MAX_SCALE = 1 << 14
"""scale at or above which finer operands do not fit in 31 bits"""


def _register_unary(type: str, records: str) -> None:
    @operator(type, quantized=type in _TABLES)
    def unary(op: OperatorContext, input: Expr) -> Expr:
        if type in _TABLES and is_quantized(op, "input"):
            return look_up(op, input, type)
        result: Expr = function(records)(input)
        return base.cast(result, input.dtype)

    unary.__doc__ = f"Return {records}, elementwise."


for _type, _records in names_in("tflite", UNARY).items():
    if _type not in _SEPARATE:
        _register_unary(_type, _records)


@operator("SQRT", quantized=True)
def square_root(op: OperatorContext, input: Expr) -> Expr:
    """Return the square roots of ``input``, truncated to integers for quantised operands."""
    if not is_quantized(op, "input"):
        return base.cast(sqrt(input), input.dtype)
    check_dtypes(op, wide=True, signed=True, input=input)
    (scale, zero), (own_scale, own_zero) = scale_and_zero_point(op, "input"), scale_and_zero_point(op, "output")
    # the interpreter rejects negative numbers; here, the result is the smallest integer
    number = base.cast(input, INT64) - zero
    root = sqrt(base.cast(maximum(number, 0), np.dtype(np.float32)) * scale) / own_scale
    return where(number < 0, np.iinfo(input.dtype).min, saturated_cast(trunc(root) + own_zero, input.dtype))


@operator("NEG", quantized=True)
def negative(op: OperatorContext, input: Expr) -> Expr:
    """Return −``input``; for quantised operands, the smallest integer is unchanged."""
    if not is_quantized(op, "input"):
        return -input
    check_dtypes(op, wide=True, signed=True, input=input)
    source, target = scale_and_zero_point(op, "input"), scale_and_zero_point(op, "output")
    if source != target or source[1]:
        raise OperandError(
            f"input and output have scales and zero points {source}, {target}",
            rule="if quantised, both must have the same scale and the zero point 0, since TensorFlow Lite negates the "
            "stored integers",
        )
    return -input


def _register_binary(type: str, records: str) -> None:
    @operator(type, moves=type in _EXTREMES)
    def binary(x: Expr, y: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
        with_one_dtype(x=x, y=y)
        return apply_activation(
            function(records)(check_float("x", x) if type in _FLOATING else x, y), fused_activation_function
        )

    binary.__doc__ = f"Return {records} of broadcast operands, elementwise."


def _register_comparison(type: str, records: str) -> None:
    @operator(type, quantized=True)
    def comparison(op: OperatorContext, x: Expr, y: Expr) -> Expr:
        with_one_dtype(x=x, y=y)
        result: Expr = function(records)(*(_comparable(op, x, y) if is_quantized(op, "x", "y") else (x, y)))
        return result

    comparison.__doc__ = f"Return {records} of broadcast operands, elementwise."


for _type, _records in names_in("tflite", BINARY).items():
    if _type not in _SEPARATE:
        (_register_comparison if _type in _COMPARISONS else _register_binary)(_type, _records)


def _comparable(op: OperatorContext, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Return x and y as integers in a common scale, so that they can be compared.

    The integers have the same order as the real numbers, but 16-bit numbers that are close together become equal.
    """
    if x.dtype.name not in ("int8", "uint8", "int16"):
        raise OperandError(
            f"x is {x.type}",
            rule="quantised operands must be int8, uint8 or int16; other dtypes are not supported",
        )
    # Interpreters compare stored 16-bit integers, except for NOT_EQUAL.
    if x.dtype == np.int16 and op.definition.type != "NOT_EQUAL":
        if scale_and_zero_point(op, "x") != scale_and_zero_point(op, "y"):
            raise OperandError(
                f"x and y have the scales {scale_and_zero_point(op, 'x')[0]} and {scale_and_zero_point(op, 'y')[0]}",
                rule="int16 operands must have the same scale and zero point, since TensorFlow Lite compares the "
                "stored integers",
            )
        return x, y
    sides = []
    for name, value in (("x", x), ("y", y)):
        scale, zero = scale_and_zero_point(op, name)
        if scale >= _MAX_SCALE:
            raise OperandError(
                f"{name} has the scale {scale}", rule=f"scales of quantised operands must be below {_MAX_SCALE}"
            )
        sides.append(rescale((base.cast(value, INT64) - zero) * (1 << _FINER_COMPARISON), scale))
    return sides[0], sides[1]


@operator("ADD", quantized=True)
def add(
    op: OperatorContext,
    x: Expr,
    y: Expr,
    *,
    fused_activation_function: Activation = "NONE",
    pot_scale_int16: bool = False,
) -> Expr:
    """Return ``x`` + ``y``, broadcast; quantised operands are converted to a common finer scale."""
    return _sum(op, x, y, 1, fused_activation_function, pot_scale_int16)


@operator("SUB", quantized=True)
def subtract(
    op: OperatorContext,
    x: Expr,
    y: Expr,
    *,
    fused_activation_function: Activation = "NONE",
    pot_scale_int16: bool = False,
) -> Expr:
    """Return ``x`` − ``y``, broadcast; quantised operands are converted to a common finer scale."""
    return _sum(op, x, y, -1, fused_activation_function, pot_scale_int16)


def _sum(op: OperatorContext, x: Expr, y: Expr, factor: int, activation: Activation, by_powers: bool) -> Expr:
    """Return ``x`` + ``y`` if ``factor`` is 1, or ``x`` − ``y`` if it is −1.

    If ``by_powers`` is True and all scales are powers of two, 16-bit operands are shifted.
    """
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return apply_activation(x + y if factor > 0 else x - y, activation)
    check_dtypes(op, wide=True, x=x, y=y)
    if x.dtype == np.int16 and by_powers:
        nearest = [_exponent(scale_and_zero_point(op, name)[0]) for name in ("x", "y", "output")]
        exponents = [exponent for exponent in nearest if exponent is not None]
        if len(exponents) == len(nearest):
            left, right = _shifted(x, y, exponents)
            low, high = result_limits(scale_and_zero_point(op, "output")[0], 0, x.dtype, activation)
            return base.cast(clip(left + right if factor > 0 else left - right, low, high), x.dtype)
    bits = _FINER_WIDE if x.dtype == np.int16 else _FINER
    twice, (left, right) = _in_finer_scale(op, x, y, bits)
    step = np.array(twice / (_FLOAT64(1 << bits) * _FLOAT64(scale_and_zero_point(op, "output")[0])))
    return requantize(op, left + right if factor > 0 else left - right, step, x, activation)


def _exponent(scale: np.float32) -> int | None:
    """Return the exponent of ``scale`` if it is a power of two within TensorFlow Lite's tolerance, else None."""
    exponent = float(np.log2(scale))
    return round(exponent) if abs(exponent - round(exponent)) < _LOG_TOLERANCE else None


def _shifted(x: Expr, y: Expr, exponents: list[int]) -> tuple[Expr, Expr]:
    """Return x and y in the scale of the result if all scales are powers of two; only the finer operand is rounded.

    ``exponents`` are the exponents of the scales of x, y and the result.
    """
    *own, result = exponents
    shifts = [result - exponent for exponent in own]
    if min(shifts) < 0 or max(shifts) > _MAX_SHIFT or 0 not in shifts:
        raise OperandError(
            f"scales of 2^{own[0]} and 2^{own[1]}, and of 2^{result} for the result",
            rule="with pot_scale_int16 and scales that are powers of two, one operand must have the result's scale, "
            f"and the other a scale that is smaller by a factor of at most 2^{_MAX_SHIFT}",
        )
    left, right = (
        base.cast(value, INT64)
        if not shift
        else sign(value) * function("right_shift")(absolute(base.cast(value, INT64)) + (1 << (shift - 1)), shift)
        for value, shift in zip((x, y), shifts, strict=True)
    )
    return left, right


def _in_finer_scale(op: OperatorContext, x: Expr, y: Expr, bits: int) -> tuple[np.float64, list[Expr]]:
    """Return twice the larger scale of x and y, and both operands in a scale that is finer by ``bits`` bits."""
    ends = [scale_and_zero_point(op, name) for name in ("x", "y")]
    twice = 2 * _FLOAT64(max(scale for scale, _ in ends))
    terms = [
        rescale((base.cast(value, INT64) - zero) * (1 << bits), _FLOAT64(scale) / twice)
        for value, (scale, zero) in zip((x, y), ends, strict=True)
    ]
    return twice, terms


@operator("MUL", quantized=True)
def multiply(op: OperatorContext, x: Expr, y: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
    """Return ``x`` · ``y``, broadcast."""
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return apply_activation(x * y, fused_activation_function)
    check_dtypes(op, wide=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero) = scale_and_zero_point(op, "x"), scale_and_zero_point(op, "y")
    # in single precision, as in the interpreter
    with np.errstate(over="ignore"):
        factor = np.array(_FLOAT64(scale * other_scale / scale_and_zero_point(op, "output")[0]))
    total = (base.cast(x, INT64) - zero) * (base.cast(y, INT64) - other_zero)
    return requantize(op, total, factor, x, fused_activation_function)


@operator("SQUARED_DIFFERENCE", quantized=True)
def squared_difference(op: OperatorContext, x: Expr, y: Expr) -> Expr:
    """Return (``x`` − ``y``)²."""
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return square(x - y)
    check_dtypes(op, signed=True, x=x, y=y)
    twice, (left, right) = _in_finer_scale(op, x, y, _FINER_SQUARE)
    factor = np.array(
        twice * twice / (_FLOAT64(1 << 2 * _FINER_SQUARE) * _FLOAT64(scale_and_zero_point(op, "output")[0]))
    )
    return requantize(op, square(left - right), factor, x)


@operator("DIV", quantized=True)
def divide(op: OperatorContext, x: Expr, y: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
    """Return ``x`` / ``y``, broadcast; a quantised quotient by zero is the dtype's limit with the sign of ``x``."""
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return apply_activation(check_float("x", x) / y, fused_activation_function)
    check_dtypes(op, wide=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero), (own_scale, own_zero) = (
        scale_and_zero_point(op, name) for name in ("x", "y", "output")
    )
    with np.errstate(over="ignore", divide="ignore"):
        factor = _FLOAT64(scale / (other_scale * own_scale))
    multiplier, own_shift = quantized_multipliers(np.array(factor))
    number, divisor = base.cast(x, INT64) - zero, base.cast(y, INT64) - other_zero
    sizes, bits = reciprocals(np.arange(1, 1 << (9 if x.dtype.itemsize == 1 else 16)))
    position = clip(absolute(divisor) - 1, 0, len(sizes) - 1)
    # the dividend is shifted to 31 bits
    room = _leading_bits(number, zero, x.dtype)
    inverse = sign(divisor) * take(tensor(sizes, name="reciprocals"), position, 0)
    shift, mask = function("right_shift"), function("bitwise_and")
    product = function("left_shift")(number, room) * inverse
    half = 1 << 30
    high = where(product >= 0, shift(product + half, 31), -shift(half - 1 - product, 31)) * int(multiplier)
    high = where(high >= 0, shift(high + half, 31), -shift(half - 1 - high, 31))
    down = clip(take(tensor(bits, name="bits"), position, 0) + room - int(own_shift), 0, 62)
    rest = function("left_shift")(tensor(np.int64(1)), down) - 1
    rounded = shift(high, down) + base.cast(mask(high, rest) > shift(rest, 1) + base.cast(high < 0, INT64), INT64)
    lowest, highest = result_limits(own_scale, own_zero, x.dtype, fused_activation_function)
    return base.cast(clip(rounded + own_zero, lowest, highest), x.dtype)


def _leading_bits(number: Expr, zero: int, dtype: np.dtype[Any]) -> Expr:
    """Return the number of leading sign bits, out of 31, of each ``number`` − ``zero``."""
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1) - zero
    # A negative number n has as many bits as −n − 1.
    bits = np.frexp(np.where(values < 0, -values - 1, values).astype(np.float64))[1].astype(np.int64)
    return take(tensor(31 - bits, name="room"), number + (zero - int(info.min)), 0)


@operator("ADD_N")
def add_n(*inputs: Expr) -> Expr:
    """Return the sum of all operands, added from the first to the last."""
    with_one_dtype(**{f"inputs.{position}": value for position, value in enumerate(inputs)})
    return reduce(lambda total, value: total + value, inputs)


@operator("SELECT", moves=True)
def select(condition: Expr, x: Expr, y: Expr) -> Expr:
    """Return ``x`` where ``condition`` is true, else ``y``."""
    if condition.shape not in ((), x.shape):
        raise OperandError(
            f"condition is {condition.type}, x {x.type}", rule="the condition must be a scalar, or have the shape of x"
        )
    return select_broadcast(condition, x, y)


@operator("SELECT_V2", moves=True)
def select_broadcast(condition: Expr, x: Expr, y: Expr) -> Expr:
    """Return ``x`` where ``condition`` is true, else ``y``, with broadcasting."""
    with_one_dtype(x=x, y=y)
    return where(condition, x, y)


# Stored integers are cast even if they are quantised. The result's dtype is used, since the options may be missing.
@operator("CAST", quantized=True)
def cast(op: OperatorContext, input: Expr, *, in_data_type: Unused, out_data_type: Unused) -> Expr:
    """Return ``input`` in the dtype of the result; fractions are truncated."""
    target = op.argument("output.dtype")
    try:
        dtype = np.dtype(target)
    except TypeError:
        dtype = np.dtype("V")
    if dtype.kind not in "biufc":
        raise OperandError(f"the result's dtype is {target!r}", rule="the result must have a NumPy dtype")
    return base.cast(input, dtype)


@operator("ZEROS_LIKE")
def zeros_like(input: Expr) -> Expr:
    """Return zeros with the shape and dtype of ``input``."""
    return zeros(input.shape, input.dtype)
