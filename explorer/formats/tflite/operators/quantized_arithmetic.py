"""Sums, differences, products, quotients and comparisons of quantised numbers, as TensorFlow Lite's kernels do them.

Operands of a sum become whole numbers in a finer scale of both first. A quotient is a product with the reciprocal of
the divisor, of which there are few: a table holds them. Numbers of 16 bits have zero points of 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import function
from explorer.formats.tflite.operators.fixed_point import reciprocals
from explorer.formats.tflite.operators.integer_arithmetic import (
    limits,
    of_bytes,
    quantized_multipliers,
    requantized,
    rounded_twice,
    single,
)
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, sign
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.activation import clip

_INT64, _FLOAT64 = np.dtype(np.int64), np.float64
_FINER, _FINER_WIDE = 20, 15
"""bits by which the scale of a sum of 8 bits, and of 16, is finer than twice the larger one of its operands"""
_FINER_SQUARE = 7
"""the same for a difference that is squared"""
_FINER_ORDER = 8
"""bits by which numbers are finer where they are compared"""
_NEAR = 1e-3
"""difference of a logarithm from a whole number that counts as none"""
_WIDEST = 31
"""bits by which a number of 16 bits may be shifted"""
_STEEPEST = 1 << 14
"""scale whose finer numbers have no room in 31 bits"""


def combined(op: OperatorContext, x: Expr, y: Expr, *, minus: bool = False) -> Expr:
    """Return the sum, or the difference, of broadcast operands."""
    of_bytes(op, wide=True, x=x, y=y)
    if x.dtype == np.int16 and op.flag("pot_scale_int16", False):
        nearest = [_exponent(single(op, name)[0]) for name in ("x", "y", "output")]
        exponents = [exponent for exponent in nearest if exponent is not None]
        if len(exponents) == len(nearest):
            return _shifted(op, x, y, exponents, minus)
    bits = _FINER_WIDE if x.dtype == np.int16 else _FINER
    twice, terms = _finer(op, x, y, bits)
    factor = np.array(twice / (_FLOAT64(1 << bits) * _FLOAT64(single(op, "output")[0])))
    return requantized(op, terms[0] - terms[1] if minus else terms[0] + terms[1], factor, x)


def _exponent(scale: np.float32) -> int | None:
    """Return the exponent of a scale that is a power of two, or as near to one as TensorFlow Lite asks; else None."""
    exact = float(np.log2(scale))
    return round(exact) if abs(exact - round(exact)) < _NEAR else None


def _shifted(op: OperatorContext, x: Expr, y: Expr, exponents: list[int], minus: bool) -> Expr:
    """Return the sum, or the difference, where scales are powers of two: the finer operand is rounded alone."""
    *own, result = exponents
    shifts = [result - exponent for exponent in own]
    if min(shifts) < 0 or max(shifts) > _WIDEST or 0 not in shifts:
        raise OperandError(
            f"scales of 2^{own[0]} and 2^{own[1]}, and of 2^{result} for the result",
            rule=f"{op.definition.type}: with pot_scale_int16 and scales that are powers of two, one operand must have "
            f"the scale of the result, and the other one that is finer by at most 2^{_WIDEST}",
        )
    left, right = (
        cast(value, _INT64)
        if not shift
        else sign(value) * function("right_shift")(absolute(cast(value, _INT64)) + (1 << (shift - 1)), shift)
        for value, shift in zip((x, y), shifts, strict=True)
    )
    low, high = limits(op, single(op, "output")[0], 0, x.dtype)
    return cast(clip(left - right if minus else left + right, low, high), x.dtype)


def squared(op: OperatorContext, x: Expr, y: Expr) -> Expr:
    """Return the square of the difference of broadcast operands of int8."""
    of_bytes(op, signed=True, x=x, y=y)
    twice, (left, right) = _finer(op, x, y, _FINER_SQUARE)
    difference = left - right
    factor = np.array(twice * twice / (_FLOAT64(1 << 2 * _FINER_SQUARE) * _FLOAT64(single(op, "output")[0])))
    return requantized(op, difference * difference, factor, x)


def multiplied(op: OperatorContext, x: Expr, y: Expr) -> Expr:
    """Return the product of broadcast operands."""
    of_bytes(op, wide=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero) = single(op, "x"), single(op, "y")
    # in single precision, as the interpreter computes it
    with np.errstate(over="ignore"):
        factor = np.array(_FLOAT64(scale * other_scale / single(op, "output")[0]))
    return requantized(op, (cast(x, _INT64) - zero) * (cast(y, _INT64) - other_zero), factor, x)


def quotient(op: OperatorContext, x: Expr, y: Expr) -> Expr:
    """Return the quotient of broadcast operands; a divisor of zero gives the limit on the dividend's side."""
    of_bytes(op, wide=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero), (own_scale, own_zero) = (
        single(op, name) for name in ("x", "y", "output")
    )
    with np.errstate(over="ignore", divide="ignore"):
        factor = _FLOAT64(scale / (other_scale * own_scale))
    multipliers, shifts = quantized_multipliers(np.array(factor))
    number, divisor = cast(x, _INT64) - zero, cast(y, _INT64) - other_zero
    sizes, bits = reciprocals(np.arange(1, 1 << (9 if x.dtype.itemsize == 1 else 16)))
    place = clip(absolute(divisor) - 1, 0, len(sizes) - 1)
    # as many bits as the dividend leaves of 31
    room = _room(number, zero, x.dtype)
    inverse = sign(divisor) * take(tensor(sizes, name="reciprocals"), place, 0)
    shift, mask = function("right_shift"), function("bitwise_and")
    product = function("left_shift")(number, room) * inverse
    half = 1 << 30
    high = where(product >= 0, shift(product + half, 31), -shift(half - 1 - product, 31)) * int(multipliers[0])
    high = where(high >= 0, shift(high + half, 31), -shift(half - 1 - high, 31))
    down = clip(take(tensor(bits, name="bits"), place, 0) + room - int(shifts[0]), 0, 62)
    rest = function("left_shift")(tensor(np.int64(1)), down) - 1
    rounded = shift(high, down) + cast(mask(high, rest) > shift(rest, 1) + cast(high < 0, _INT64), _INT64)
    low, most = limits(op, own_scale, own_zero, x.dtype)
    return cast(clip(rounded + own_zero, low, most), x.dtype)


def compared(op: OperatorContext, x: Expr, y: Expr, records: str) -> Expr:
    """Return which real numbers are smaller, equal and so on; each in a finer scale of its own.

    In that scale numbers of 16 bits that are close together are equal.
    """
    if x.dtype.name not in ("int8", "uint8", "int16"):
        raise OperandError(
            f"x is {x.type}",
            rule=f"{op.definition.type}: quantised, operands must be of int8, uint8 or int16; others are not computed",
        )
    # interpreters compare numbers of 16 bits as they are stored, but for NOT_EQUAL
    if x.dtype == np.int16 and op.definition.type != "NOT_EQUAL":
        return _compared_as_stored(op, x, y, records)
    sides = []
    for name, value in (("x", x), ("y", y)):
        scale, zero = single(op, name)
        if scale >= _STEEPEST:
            raise OperandError(
                f"{name} has the scale {scale}",
                rule=f"{op.definition.type}: scales of quantised operands must be below {_STEEPEST}",
            )
        multipliers, shifts = quantized_multipliers(np.array(_FLOAT64(scale)))
        fine = (cast(value, _INT64) - zero) * (1 << _FINER_ORDER)
        sides.append(rounded_twice(fine, multipliers.reshape(()), shifts.reshape(())))
    result: Expr = function(records)(*sides)
    return result


def _compared_as_stored(op: OperatorContext, x: Expr, y: Expr, records: str) -> Expr:
    if single(op, "x") != single(op, "y"):
        raise OperandError(
            f"x and y have the scales {single(op, 'x')[0]} and {single(op, 'y')[0]}",
            rule=f"{op.definition.type}: operands of int16 must have one scale and zero point, since TensorFlow Lite "
            "compares the stored numbers",
        )
    result: Expr = function(records)(x, y)
    return result


def _finer(op: OperatorContext, x: Expr, y: Expr, bits: int) -> tuple[np.float64, list[Expr]]:
    """Return twice the larger scale, and both operands in a scale that is so many bits finer."""
    ends = [single(op, name) for name in ("x", "y")]
    twice = 2 * _FLOAT64(max(scale for scale, _ in ends))
    terms = []
    for value, (scale, zero) in zip((x, y), ends, strict=True):
        multipliers, shifts = quantized_multipliers(np.array(_FLOAT64(scale) / twice))
        fine = (cast(value, _INT64) - zero) * (1 << bits)
        terms.append(rounded_twice(fine, multipliers.reshape(()), shifts.reshape(())))
    return twice, terms


def _room(number: Expr, zero: int, dtype: np.dtype[Any]) -> Expr:
    """Return how many bits of 31 are above those of each number, which has a zero point taken off."""
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1) - zero
    # a negative number has the bits of the one above its size
    bits = np.frexp(np.where(every < 0, -every - 1, every).astype(np.float64))[1].astype(np.int64)
    return take(tensor(31 - bits, name="room"), number + (zero - int(info.min)), 0)
