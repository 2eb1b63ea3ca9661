"""Functions of single elements, arithmetic and orders of broadcast operands, and casts.

Quantised numbers are computed as TensorFlow Lite's kernels do it. Operands of a sum become integers in a finer scale of
both first. A quotient is a product with the reciprocal of the divisor, of which there are few: a table holds them.
Numbers of 16 bits have zero points of 0.
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
from explorer.formats.tflite.operators.activation import activated, real
from explorer.formats.tflite.operators.fixed_point import reciprocals
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT64,
    Activation,
    is_quantized,
    limits,
    narrowed,
    of_bytes,
    quantized_multipliers,
    requantized,
    rescaled,
    single,
)
from explorer.formats.tflite.operators.quantized_tables import looked_up
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
"""types that quantised numbers have by tables"""
_EXTREMES = ("MAXIMUM", "MINIMUM")
"""types whose results are elements of operands"""
_ORDERS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
_REAL = ("POW", "ATAN2")
"""types whose result is a real number in NumPy's terms; those of integers round by rules of their own"""
_OWN = ("DIV", "SUB", "NEG", "SQRT")
"""types that have functions of their own"""
_FLOAT64 = np.float64
_FINER, _FINER_WIDE = 20, 15
"""bits by which the scale of a sum of 8 bits, and of 16, is finer than twice the larger one of its operands"""
_FINER_SQUARE = 7
"""the same for a difference that is squared"""
_FINER_ORDER = 8
"""bits by which numbers are finer where they are compared"""
_NEAR = 1e-3
"""difference of a logarithm from an integer that counts as none"""
_WIDEST = 31
"""bits by which a number of 16 bits may be shifted"""
_STEEPEST = 1 << 14
"""scale whose finer numbers have no room in 31 bits"""


def _enter_unary(type: str, records: str) -> None:
    @operator(type, quantized=type in _TABLES)
    def unary(op: OperatorContext, input: Expr) -> Expr:
        if type in _TABLES and is_quantized(op, "input"):
            return looked_up(op, input, type)
        result: Expr = function(records)(input)
        return base.cast(result, input.dtype)

    unary.__doc__ = f"{records}, element by element."


for _type, _records in names_in("tflite", UNARY).items():
    if _type not in _OWN:
        _enter_unary(_type, _records)


@operator("SQRT", quantized=True)
def square_root(op: OperatorContext, input: Expr) -> Expr:
    """Roots; those of quantised numbers are cut off after the point."""
    if not is_quantized(op, "input"):
        return base.cast(sqrt(input), input.dtype)
    of_bytes(op, wide=True, signed=True, input=input)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    # a number below zero has none, which the interpreter refuses; it takes the least number
    number = base.cast(input, INT64) - zero
    root = sqrt(base.cast(maximum(number, 0), np.dtype(np.float32)) * scale) / own_scale
    return where(number < 0, np.iinfo(input.dtype).min, narrowed(trunc(root) + own_zero, input.dtype))


@operator("NEG", quantized=True)
def negative(op: OperatorContext, input: Expr) -> Expr:
    """The numbers with the other sign; of quantised ones the stored numbers, the least one as it is."""
    if not is_quantized(op, "input"):
        return -input
    of_bytes(op, wide=True, signed=True, input=input)
    if single(op, "input") != single(op, "output") or single(op, "input")[1]:
        raise OperandError(
            f"input and output have scales and zero points {single(op, 'input')}, {single(op, 'output')}",
            rule="quantised, both must have one scale and the zero point 0, since TensorFlow Lite negates the stored "
            "numbers",
        )
    return -input


def _enter_binary(type: str, records: str) -> None:
    @operator(type, moves=type in _EXTREMES)
    def binary(x: Expr, y: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
        with_one_dtype(x=x, y=y)
        return activated(function(records)(real("x", x) if type in _REAL else x, y), fused_activation_function)

    binary.__doc__ = f"{records}, element by element, of broadcast operands."


def _enter_order(type: str, records: str) -> None:
    @operator(type, quantized=True)
    def order(op: OperatorContext, x: Expr, y: Expr) -> Expr:
        with_one_dtype(x=x, y=y)
        result: Expr = function(records)(*(_comparable(op, x, y) if is_quantized(op, "x", "y") else (x, y)))
        return result

    order.__doc__ = f"{records}, element by element, of broadcast operands."


for _type, _records in names_in("tflite", BINARY).items():
    if _type not in _OWN:
        (_enter_order if _type in _ORDERS else _enter_binary)(_type, _records)


def _comparable(op: OperatorContext, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Return integers in the order of the real numbers, each in a finer scale of its own.

    In that scale numbers of 16 bits that are close together are equal.
    """
    if x.dtype.name not in ("int8", "uint8", "int16"):
        raise OperandError(
            f"x is {x.type}",
            rule="quantised, operands must be of int8, uint8 or int16; others are not computed",
        )
    # interpreters compare numbers of 16 bits as they are stored, but for NOT_EQUAL
    if x.dtype == np.int16 and op.definition.type != "NOT_EQUAL":
        if single(op, "x") != single(op, "y"):
            raise OperandError(
                f"x and y have the scales {single(op, 'x')[0]} and {single(op, 'y')[0]}",
                rule="operands of int16 must have one scale and zero point, since TensorFlow Lite compares the stored "
                "numbers",
            )
        return x, y
    sides = []
    for name, value in (("x", x), ("y", y)):
        scale, zero = single(op, name)
        if scale >= _STEEPEST:
            raise OperandError(
                f"{name} has the scale {scale}", rule=f"scales of quantised operands must be below {_STEEPEST}"
            )
        sides.append(rescaled((base.cast(value, INT64) - zero) * (1 << _FINER_ORDER), scale))
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
    """The sum of broadcast operands; of quantised numbers, in a finer scale of both."""
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
    """The difference of broadcast operands; of quantised numbers, in a finer scale of both."""
    return _sum(op, x, y, -1, fused_activation_function, pot_scale_int16)


def _sum(op: OperatorContext, x: Expr, y: Expr, factor: int, activation: Activation, by_powers: bool) -> Expr:
    """Return x plus y, or minus y for a factor of −1; ``by_powers`` where scales of 16 bits are powers of two."""
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return activated(x + y if factor > 0 else x - y, activation)
    of_bytes(op, wide=True, x=x, y=y)
    if x.dtype == np.int16 and by_powers:
        nearest = [_exponent(single(op, name)[0]) for name in ("x", "y", "output")]
        exponents = [exponent for exponent in nearest if exponent is not None]
        if len(exponents) == len(nearest):
            left, right = _shifted(x, y, exponents)
            low, high = limits(single(op, "output")[0], 0, x.dtype, activation)
            return base.cast(clip(left + right if factor > 0 else left - right, low, high), x.dtype)
    bits = _FINER_WIDE if x.dtype == np.int16 else _FINER
    twice, (left, right) = _finer(op, x, y, bits)
    step = np.array(twice / (_FLOAT64(1 << bits) * _FLOAT64(single(op, "output")[0])))
    return requantized(op, left + right if factor > 0 else left - right, step, x, activation)


def _exponent(scale: np.float32) -> int | None:
    """Return the exponent of a scale that is a power of two, or as near to one as TensorFlow Lite asks; else None."""
    exact = float(np.log2(scale))
    return round(exact) if abs(exact - round(exact)) < _NEAR else None


def _shifted(x: Expr, y: Expr, exponents: list[int]) -> tuple[Expr, Expr]:
    """Return operands in the scale of the result where scales are powers of two: only the finer one is rounded."""
    *own, result = exponents
    shifts = [result - exponent for exponent in own]
    if min(shifts) < 0 or max(shifts) > _WIDEST or 0 not in shifts:
        raise OperandError(
            f"scales of 2^{own[0]} and 2^{own[1]}, and of 2^{result} for the result",
            rule="with pot_scale_int16 and scales that are powers of two, one operand must have the scale of the "
            f"result, and the other one that is finer by at most 2^{_WIDEST}",
        )
    left, right = (
        base.cast(value, INT64)
        if not shift
        else sign(value) * function("right_shift")(absolute(base.cast(value, INT64)) + (1 << (shift - 1)), shift)
        for value, shift in zip((x, y), shifts, strict=True)
    )
    return left, right


def _finer(op: OperatorContext, x: Expr, y: Expr, bits: int) -> tuple[np.float64, list[Expr]]:
    """Return twice the larger scale, and both operands in a scale that is so many bits finer."""
    ends = [single(op, name) for name in ("x", "y")]
    twice = 2 * _FLOAT64(max(scale for scale, _ in ends))
    terms = [
        rescaled((base.cast(value, INT64) - zero) * (1 << bits), _FLOAT64(scale) / twice)
        for value, (scale, zero) in zip((x, y), ends, strict=True)
    ]
    return twice, terms


@operator("MUL", quantized=True)
def multiply(op: OperatorContext, x: Expr, y: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
    """The product of broadcast operands; of quantised numbers, in the scale of the result."""
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return activated(x * y, fused_activation_function)
    of_bytes(op, wide=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero) = single(op, "x"), single(op, "y")
    # in single precision, as the interpreter computes it
    with np.errstate(over="ignore"):
        factor = np.array(_FLOAT64(scale * other_scale / single(op, "output")[0]))
    total = (base.cast(x, INT64) - zero) * (base.cast(y, INT64) - other_zero)
    return requantized(op, total, factor, x, fused_activation_function)


@operator("SQUARED_DIFFERENCE", quantized=True)
def squared_difference(op: OperatorContext, x: Expr, y: Expr) -> Expr:
    """(x − y)²."""
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return square(x - y)
    of_bytes(op, signed=True, x=x, y=y)
    twice, (left, right) = _finer(op, x, y, _FINER_SQUARE)
    factor = np.array(twice * twice / (_FLOAT64(1 << 2 * _FINER_SQUARE) * _FLOAT64(single(op, "output")[0])))
    return requantized(op, square(left - right), factor, x)


@operator("DIV", quantized=True)
def divide(op: OperatorContext, x: Expr, y: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
    """The quotient of broadcast operands; of quantised numbers a divisor of zero gives the limit on x's side."""
    with_one_dtype(x=x, y=y)
    if not is_quantized(op, "x", "y"):
        return activated(real("x", x) / y, fused_activation_function)
    of_bytes(op, wide=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero), (own_scale, own_zero) = (
        single(op, name) for name in ("x", "y", "output")
    )
    with np.errstate(over="ignore", divide="ignore"):
        factor = _FLOAT64(scale / (other_scale * own_scale))
    multiplier, own_shift = quantized_multipliers(np.array(factor))
    number, divisor = base.cast(x, INT64) - zero, base.cast(y, INT64) - other_zero
    sizes, bits = reciprocals(np.arange(1, 1 << (9 if x.dtype.itemsize == 1 else 16)))
    position = clip(absolute(divisor) - 1, 0, len(sizes) - 1)
    # as many bits as the dividend leaves of 31
    room = _room(number, zero, x.dtype)
    inverse = sign(divisor) * take(tensor(sizes, name="reciprocals"), position, 0)
    shift, mask = function("right_shift"), function("bitwise_and")
    product = function("left_shift")(number, room) * inverse
    half = 1 << 30
    high = where(product >= 0, shift(product + half, 31), -shift(half - 1 - product, 31)) * int(multiplier)
    high = where(high >= 0, shift(high + half, 31), -shift(half - 1 - high, 31))
    down = clip(take(tensor(bits, name="bits"), position, 0) + room - int(own_shift), 0, 62)
    rest = function("left_shift")(tensor(np.int64(1)), down) - 1
    rounded = shift(high, down) + base.cast(mask(high, rest) > shift(rest, 1) + base.cast(high < 0, INT64), INT64)
    low, most = limits(own_scale, own_zero, x.dtype, fused_activation_function)
    return base.cast(clip(rounded + own_zero, low, most), x.dtype)


def _room(number: Expr, zero: int, dtype: np.dtype[Any]) -> Expr:
    """Return how many bits of 31 are above those of each number, which has a zero point taken off."""
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1) - zero
    # a negative number has the bits of the one above its size
    bits = np.frexp(np.where(every < 0, -every - 1, every).astype(np.float64))[1].astype(np.int64)
    return take(tensor(31 - bits, name="room"), number + (zero - int(info.min)), 0)


@operator("ADD_N")
def add_n(*inputs: Expr) -> Expr:
    """The sum of all operands, from the first to the last."""
    with_one_dtype(**{f"inputs.{position}": value for position, value in enumerate(inputs)})
    return reduce(lambda total, value: total + value, inputs)


@operator("SELECT", moves=True)
def select(condition: Expr, x: Expr, y: Expr) -> Expr:
    """x where the condition holds, else y."""
    if condition.shape not in ((), x.shape):
        raise OperandError(
            f"condition is {condition.type}, x {x.type}", rule="the condition must be one, or one an element"
        )
    return select_broadcast(condition, x, y)


@operator("SELECT_V2", moves=True)
def select_broadcast(condition: Expr, x: Expr, y: Expr) -> Expr:
    """x where the condition holds, else y, all of them broadcast."""
    with_one_dtype(x=x, y=y)
    return where(condition, x, y)


# The numbers as they are stored, whatever they represent. The dtype is that of the result: options may be left out.
@operator("CAST", quantized=True)
def cast(op: OperatorContext, input: Expr, *, in_data_type: Unused, out_data_type: Unused) -> Expr:
    """The same numbers in another dtype; fractions are cut off."""
    target = op.argument("output.dtype")
    try:
        dtype = np.dtype(target)
    except TypeError:
        dtype = np.dtype("V")
    if dtype.kind not in "biufc":
        raise OperandError(f"the result is of {target!r}", rule="elements must become numbers that NumPy has")
    return base.cast(input, dtype)


@operator("ZEROS_LIKE")
def zeros_like(input: Expr) -> Expr:
    """As many zeros."""
    return zeros(input.shape, input.dtype)
