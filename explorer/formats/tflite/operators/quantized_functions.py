"""Quantised rectifiers, softmax, sums and means, as TensorFlow Lite's kernels compute them.

The rectifiers multiply, and round as products do. A mean's number of elements is part of its multiplier, so that a mean
rounds once less; a sum is computed in single precision.
"""

from __future__ import annotations

from math import prod

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import function
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT8,
    exact,
    of_bytes,
    quantized_multipliers,
    requantized,
    rounded_twice,
    rounded_wide,
    single,
    with_dtype,
)
from explorer.formats.tflite.operators.quantized_tables import between, lines
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast, reshape
from explorer.ops.control.scan import scan
from explorer.ops.elementwise.arithmetic import maximum, where
from explorer.ops.elementwise.rounding_and_bits import floor, trunc
from explorer.ops.elementwise.unary import sign, sqrt
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.activation import clip
from explorer.ops.nn.softmax import log_softmax, softmax
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import sum

_INT64, _FLOAT32, _FLOAT64 = np.dtype(np.int64), np.float32, np.float64
_BITS, _MOST = 31, 32
"""bits of a multiplier, and most bits that the number of a mean's elements takes of it"""
_LONGEST = 1 << 16
"""most elements of a softmax of 16 bits"""
_FAR = 1 << 20
"""number beyond the limits of all results"""


def rectified(op: OperatorContext, x: Expr) -> Expr:
    """Return a rectifier's results, which the scale of the result makes of them."""
    of_bytes(op, wide=op.definition.type in ("RELU", "RELU6"), input=x)
    scale, zero = single(op, "input")
    with np.errstate(over="ignore"):
        factor = np.array(np.float64(scale / single(op, "output")[0]))
    return requantized(op, cast(x, _INT64) - zero, factor, x, activation=op.definition.type)


def leaky(op: OperatorContext, x: Expr, alpha: float) -> Expr:
    """Return x where it is positive, else alpha · x, each by a multiplier of its own."""
    of_bytes(op, wide=True, input=x)
    if alpha < 0:
        raise OperandError(f"alpha={alpha}", rule="LEAKY_RELU: quantised, alpha must not be negative")
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    number = cast(x, _INT64) - zero
    sides = []
    with np.errstate(over="ignore"):
        factors = scale / own_scale, scale * _FLOAT32(alpha) / own_scale
    for factor in factors:
        multipliers, shifts = quantized_multipliers(np.array(np.float64(factor)))
        sides.append(rounded_twice(number, multipliers.reshape(()), shifts.reshape(())))
    info = np.iinfo(x.dtype)
    return cast(clip(where(number >= 0, sides[0], sides[1]) + own_zero, int(info.min), int(info.max)), x.dtype)


def probabilities(op: OperatorContext, x: Expr, beta: float) -> Expr:
    """Return the softmax of beta · x along the last axis, in steps of 1/256."""
    of_bytes(op, input=x)
    if not np.isfinite(beta):
        raise OperandError(f"beta={beta}", rule="SOFTMAX: beta must be a finite number")
    (scale, _), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    info = np.iinfo(x.dtype)
    if own_scale != _FLOAT32(1 / 256) or own_zero != info.min:
        raise OperandError(
            f"output has the scale {own_scale} and the zero point {own_zero}",
            rule=f"SOFTMAX: the result must have the scale 1/256 and the zero point {info.min}",
        )
    # the zero point takes part in no difference
    shares = softmax(exact(x, 0) * (float(scale) * beta), -1)
    return cast(clip(floor(shares * 256 + 0.5) + own_zero, int(info.min), int(info.max)), x.dtype)


def parametric(op: OperatorContext, x: Expr, alpha: Expr) -> Expr:
    """Return x where it is positive, else alpha · x, where alpha is broadcast, each by a multiplier of its own.

    Of an input of int16 alpha is of int8.
    """
    of_bytes(op, wide=True, input=x)
    with_dtype(op, INT8 if x.dtype == np.int16 else x.dtype, alpha=alpha)
    (scale, zero), (slope, slope_zero) = single(op, "input"), single(op, "alpha")
    own_scale, own_zero = single(op, "output")
    number = cast(x, _INT64) - zero
    sides = []
    with np.errstate(over="ignore"):
        factors = scale / own_scale, scale * slope / own_scale
    for factor, value in zip(factors, (number, number * (cast(alpha, _INT64) - slope_zero)), strict=True):
        multipliers, shifts = quantized_multipliers(np.array(np.float64(factor)))
        sides.append(rounded_twice(value, multipliers.reshape(()), shifts.reshape(())))
    info = np.iinfo(x.dtype)
    return cast(clip(where(number >= 0, sides[0], sides[1]) + own_zero, int(info.min), int(info.max)), x.dtype)


def probabilities_of_16_bits(op: OperatorContext, x: Expr, beta: float) -> Expr:
    """Return the softmax of beta · x along the last axis, in steps of 1/32768.

    Exponentials, and the reciprocal of their sum, are on lines between the elements of tables.
    """
    of_bytes(op, wide=True, input=x)
    (scale, _), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    if own_scale != _FLOAT32(1 / 32768) or own_zero:
        raise OperandError(
            f"output has the scale {own_scale} and the zero point {own_zero}",
            rule="SOFTMAX: the result of 16 bits must have the scale 1/32768 and the zero point 0",
        )
    if x.shape[-1] > _LONGEST:
        raise OperandError(
            f"input is {x.type}",
            rule=f"SOFTMAX: the last axis must have at most {_LONGEST} elements, whose sum has room in 31 bits",
        )
    shift, number = function("right_shift"), cast(x, _INT64)
    multipliers, shifts = quantized_multipliers(np.array(float(scale) * beta / (10 / 65535)))
    steps = rounded_twice(number - largest(number, -1, keepdims=True), multipliers.reshape(()), shifts.reshape(()))
    place = clip(steps + 32767, -32768, 32767)
    exponentials = cast(between(lines(np.exp, 10 / 65535, 32767, 2 / 65535, 0), place), _INT64)
    total = sum(exponentials, -1, keepdims=True)
    # the bits of 31 above those of the total
    room = 31 - sum(cast(total >= tensor(np.int64(1) << np.arange(31)), _INT64), -1, keepdims=True)
    rest = shift(function("left_shift")(total, room) - (1 << 30) + (1 << 13), 14) - 32768
    table = lines(lambda value: 1 / (1 + value), 1 / 65535, -32768, 2 / 65535, 0)
    reciprocal = cast(between(table, clip(rest, -32768, 32767)), _INT64)
    half = function("left_shift")(tensor(np.int64(1)), 29 - room)
    return cast(clip(shift(exponentials * reciprocal + half, 30 - room), 0, 32767), x.dtype)


def log_probabilities(op: OperatorContext, x: Expr) -> Expr:
    """Return the logarithms of a softmax along the last axis, in steps of 1/16 down to −255/16.

    They are exact, and then rounded: where one lies half-way between two steps, the interpreter's arithmetic of 32 bits
    may take the other.
    """
    of_bytes(op, input=x)
    (scale, _), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    info = np.iinfo(x.dtype)
    if own_scale != _FLOAT32(1 / 16) or own_zero != info.max:
        raise OperandError(
            f"output has the scale {own_scale} and the zero point {own_zero}",
            rule=f"LOG_SOFTMAX: the result must have the scale 1/16 and the zero point {info.max}",
        )
    # the zero point takes part in no difference
    steps = log_softmax(exact(x, 0) * float(scale), -1) * 16
    return cast(clip(trunc(steps - 0.5) + own_zero, int(info.min), int(info.max)), x.dtype)


def rooted(op: OperatorContext, x: Expr) -> Expr:
    """Return roots, cut off behind the point."""
    of_bytes(op, wide=True, signed=True, input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    # a number below zero has none, which the interpreter refuses; it takes the least number
    number = cast(x, _INT64) - zero
    root = sqrt(cast(maximum(number, 0), np.dtype(_FLOAT32)) * scale) / own_scale
    info = np.iinfo(x.dtype)
    whole = cast(clip(trunc(root) + own_zero, int(info.min), int(info.max)), x.dtype)
    return where(number < 0, info.min, whole)


def negated(op: OperatorContext, x: Expr) -> Expr:
    """Return the stored numbers with the other sign, the least one as it is."""
    of_bytes(op, wide=True, signed=True, input=x)
    if single(op, "input") != single(op, "output") or single(op, "input")[1]:
        raise OperandError(
            f"input and output have scales and zero points {single(op, 'input')}, {single(op, 'output')}",
            rule="NEG: quantised, both must have one scale and the zero point 0, since TensorFlow Lite negates the "
            "stored numbers",
        )
    return -x


def multiplied_up(op: OperatorContext, x: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return products along axes: one factor after the other, each rounded to the share of the result's scale."""
    of_bytes(op, wide=True, signed=True, input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    count = prod([x.shape[axis] for axis in axes])
    if not count:
        raise OperandError(f"no elements along {axes} of {x.type}", rule="REDUCE_PROD: there must be a factor")
    with np.errstate(over="ignore"):
        factor = _FLOAT64(scale) / _FLOAT64(own_scale) ** (1 / count)
    parts = [each.reshape(()) for each in quantized_multipliers(np.array(factor))]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    factors = reshape(
        transpose(cast(x, _INT64) - zero, (*sorted(axes), *kept)), (count, *[x.shape[axis] for axis in kept])
    )

    # the interpreter holds each product in 32 bits
    def rounded(number: Expr) -> Expr:
        return cast(cast(rounded_wide(number, *parts), np.dtype(np.int32)), _INT64)

    product, _ = scan(lambda product, each: (rounded(product * each), None), factors[0], factors[1:], name="products")
    info = np.iinfo(x.dtype)
    result = cast(clip(rounded(product) + own_zero, int(info.min), int(info.max)), x.dtype)
    return (
        reshape(result, tuple([1 if axis in axes else size for axis, size in enumerate(x.shape)]))
        if keepdims
        else result
    )


def summed(op: OperatorContext, x: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return sums along axes."""
    of_bytes(op, wide=True, input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    count = prod([x.shape[axis] for axis in axes])
    with np.errstate(over="ignore"):
        factor = scale / own_scale
        if not np.isfinite(factor):
            raise OperandError(f"a factor of {factor}", rule="SUM: both scales must make a factor of single precision")
        bias = _FLOAT32(-zero) * factor * _FLOAT32(count)
    value = cast(sum(cast(x, _INT64), axes, keepdims=keepdims), np.dtype(_FLOAT32)) * factor + bias
    # the sum may be beyond the whole numbers of 64 bits
    nearest = cast(clip(trunc(value + sign(value) * _FLOAT32(0.5)), -_FAR, _FAR), _INT64)
    info = np.iinfo(x.dtype)
    return cast(clip(nearest + own_zero, int(info.min), int(info.max)), x.dtype)


def averaged(op: OperatorContext, x: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return means along axes."""
    of_bytes(op, wide=True, input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    count = prod([x.shape[axis] for axis in axes])
    most = 1 << (32 - 8 * x.dtype.itemsize)
    if not 0 < count <= most:
        raise OperandError(
            f"{count} elements of {x.type}",
            rule=f"MEAN: there must be an element to average, and at most {most} of {x.dtype.name}",
        )
    total = sum(cast(x, _INT64) - zero, axes, keepdims=keepdims)
    multipliers, shifts = quantized_multipliers(np.array(np.float64(scale) / np.float64(own_scale)))
    multiplier, shift = int(multipliers[0]), int(shifts[0])
    finer = max(min(count.bit_length() - 1, _MOST, _BITS + shift), 0)
    parts = np.array((multiplier << finer) // count), np.array(shift - finer)
    info = np.iinfo(x.dtype)
    return cast(clip(rounded_twice(total, *parts) + own_zero, int(info.min), int(info.max)), x.dtype)
