"""Quantised functions of single elements, softmax and means of 8 bits, as TensorFlow Lite's kernels compute them.

A smooth function of 8 bits has 256 results: these are a table, and each element is looked up. The rectifiers multiply,
and round as products do. A mean's number of elements is part of its multiplier, so that a mean rounds once less.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array
from explorer.formats.tflite.operators.integer_arithmetic import (
    exact,
    of_bytes,
    quantized_multipliers,
    requantized,
    rounded_twice,
    single,
)
from explorer.formats.tflite.operators.quantized_hard_swish import hard_swish
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.rounding_and_bits import floor
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.activation import clip
from explorer.ops.nn.softmax import softmax
from explorer.ops.reduction.reduce import sum

_INT64, _FLOAT32 = np.dtype(np.int64), np.float32
_BITS, _MOST = 31, 32
"""bits of a multiplier, and most bits that the number of a mean's elements takes of it"""
TABLES: dict[str, Callable[[Array], Array]] = {
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "TANH": np.tanh,
}
"""operator type → its function of single precision"""


def looked_up(op: OperatorContext, x: Expr) -> Expr:
    """Return each element's result of a function, out of a table of all 256."""
    of_bytes(op, input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    info = np.iinfo(x.dtype)
    numbers = np.arange(info.min, info.max + 1) - zero
    with np.errstate(over="ignore"):
        if op.definition.type == "HARD_SWISH":
            results = hard_swish(numbers, scale, own_scale)
        else:
            ratios = np.asarray(TABLES[op.definition.type](numbers.astype(_FLOAT32) * scale), _FLOAT32) / own_scale
            results = np.copysign(np.floor(np.abs(ratios) + _FLOAT32(0.5)), ratios)
    table = np.clip(results + own_zero, info.min, info.max).astype(x.dtype)
    return take(tensor(table, name="table"), cast(x, _INT64) - int(info.min), 0)


def rectified(op: OperatorContext, x: Expr) -> Expr:
    """Return a rectifier's results, which the scale of the result makes of them."""
    of_bytes(op, input=x)
    scale, zero = single(op, "input")
    with np.errstate(over="ignore"):
        factor = np.array(np.float64(scale / single(op, "output")[0]))
    return requantized(op, cast(x, _INT64) - zero, factor, x, activation=op.definition.type)


def leaky(op: OperatorContext, x: Expr, alpha: float) -> Expr:
    """Return x where it is positive, else alpha · x, each by a multiplier of its own."""
    of_bytes(op, input=x)
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


def averaged(op: OperatorContext, x: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return means along axes."""
    of_bytes(op, input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    count = prod([x.shape[axis] for axis in axes])
    if not count:
        raise OperandError(f"input is {x.type}", rule="MEAN: there must be an element to average")
    total = sum(cast(x, _INT64) - zero, axes, keepdims=keepdims)
    multipliers, shifts = quantized_multipliers(np.array(np.float64(scale) / np.float64(own_scale)))
    multiplier, shift = int(multipliers[0]), int(shifts[0])
    finer = max(min(count.bit_length() - 1, _MOST, _BITS + shift), 0)
    parts = np.array((multiplier << finer) // count), np.array(shift - finer)
    info = np.iinfo(x.dtype)
    return cast(clip(rounded_twice(total, *parts) + own_zero, int(info.min), int(info.max)), x.dtype)
