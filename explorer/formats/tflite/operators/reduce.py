"""Reductions along axes, positions of extremes, sums so far, and norms.

Quantised numbers are computed as TensorFlow Lite's kernels do it. A mean's number of elements is part of its
multiplier, so that a mean rounds once less; a sum is computed in single precision; the reciprocal of a norm is found by
Newton's steps of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.types.tensor_type import AnyType, Array, TensorType, normalize_axis
from explorer.formats.tflite.operators.activation import activated, real
from explorer.formats.tflite.operators.fixed_point import BITS, Numbers, divided, high, multiplied, saturated
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT64,
    Activation,
    check_result,
    is_quantized,
    narrowed,
    of_bytes,
    quantized_multipliers,
    rounded_twice,
    rounded_wide,
    single,
)
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Ints, Known
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast, reshape
from explorer.ops.control.scan import scan
from explorer.ops.elementwise.arithmetic import maximum
from explorer.ops.elementwise.rounding_and_bits import trunc
from explorer.ops.elementwise.unary import sign, sqrt, square
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.activation import clip
from explorer.ops.reduction import reduce
from explorer.ops.reduction.sorting import argmax, argmin, cumsum, topk

_FLOAT32, _FLOAT64 = np.float32, np.float64
_MOST = 32
"""most bits that the number of a mean's elements takes of its multiplier"""
_FAR = 1 << 20
"""number beyond the limits of all results"""
_LEAST_NORM = 1e-6
"""least norm that L2_NORMALIZATION divides by"""
_ONE = 1 << 28
"""one, where three bits are before the point"""
_HALF_ROOT = 1518500250
"""√2 / 2 of 31 bits"""
_STEPS = 5
_FACTOR = 7
"""power of two by which a result of 8 bits is finer than one"""


def axes_of(axis: tuple[int, ...], x: Expr) -> tuple[int, ...]:
    """Return axes counted from the front, each once."""
    return tuple(dict.fromkeys([normalize_axis(each, x.ndim, "axis") for each in axis]))


def _enter(type: str, records: Callable[..., Expr], moves: bool = False) -> None:
    @operator(type, moves=moves)
    def reduction(input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
        return cast(records(input, axes_of(axis, input), keepdims=keep_dims), input.dtype)

    reduction.__doc__ = f"{records.__name__} along axes."


_enter("REDUCE_MAX", reduce.max, moves=True)
_enter("REDUCE_MIN", reduce.min, moves=True)
_enter("REDUCE_ANY", reduce.any)
_enter("REDUCE_ALL", reduce.all)


@operator("MEAN", quantized=True)
def mean(op: OperatorContext, input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
    """Means along axes."""
    axes = axes_of(axis, input)
    if not is_quantized(op, "input"):
        return cast(reduce.mean(real("input", input), axes, keepdims=keep_dims), input.dtype)
    of_bytes(op, wide=True, input=input)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    count = prod([input.shape[axis] for axis in axes])
    most = 1 << (32 - 8 * input.dtype.itemsize)
    if not 0 < count <= most:
        raise OperandError(
            f"{count} elements of {input.type}",
            rule=f"there must be an element to average, and at most {most} of {input.dtype.name}",
        )
    total = reduce.sum(cast(input, INT64) - zero, axes, keepdims=keep_dims)
    multiplier, shift = map(int, quantized_multipliers(np.array(_FLOAT64(scale) / _FLOAT64(own_scale))))
    finer = max(min(count.bit_length() - 1, _MOST, BITS + shift), 0)
    parts = np.array((multiplier << finer) // count), np.array(shift - finer)
    return narrowed(rounded_twice(total, *parts) + own_zero, input.dtype)


@operator("SUM", quantized=True)
def sum(op: OperatorContext, input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
    """Sums along axes."""
    axes = axes_of(axis, input)
    if not is_quantized(op, "input"):
        return cast(reduce.sum(input, axes, keepdims=keep_dims), input.dtype)
    of_bytes(op, wide=True, input=input)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    count = prod([input.shape[axis] for axis in axes])
    with np.errstate(over="ignore"):
        factor = scale / own_scale
        if not np.isfinite(factor):
            raise OperandError(f"a factor of {factor}", rule="both scales must make a factor of single precision")
        bias = _FLOAT32(-zero) * factor * _FLOAT32(count)
    total = reduce.sum(cast(input, INT64), axes, keepdims=keep_dims)
    value = cast(total, np.dtype(_FLOAT32)) * factor + bias
    # the sum may be beyond the integers of 64 bits
    nearest = cast(clip(trunc(value + sign(value) * _FLOAT32(0.5)), -_FAR, _FAR), INT64)
    return narrowed(nearest + own_zero, input.dtype)


@operator("REDUCE_PROD", quantized=True)
def product(op: OperatorContext, input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
    """Products along axes; of quantised numbers one factor after the other, each rounded to its share of the scale."""
    x, axes = input, axes_of(axis, input)
    if not is_quantized(op, "input"):
        return cast(reduce.prod(x, axes, keepdims=keep_dims), x.dtype)
    of_bytes(op, wide=True, signed=True, input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    count = prod([x.shape[axis] for axis in axes])
    if not count:
        raise OperandError(f"no elements along {axes} of {x.type}", rule="there must be a factor")
    with np.errstate(over="ignore"):
        parts = quantized_multipliers(np.array(_FLOAT64(scale) / _FLOAT64(own_scale) ** (1 / count)))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    in_rows = transpose(cast(x, INT64) - zero, (*sorted(axes), *kept))
    factors = reshape(in_rows, (count, *[x.shape[axis] for axis in kept]))

    # the interpreter holds each product in 32 bits
    def rounded(number: Expr) -> Expr:
        return cast(cast(rounded_wide(number, *parts), np.dtype(np.int32)), INT64)

    total, _ = scan(lambda total, each: (rounded(total * each), None), factors[0], factors[1:], name="products")
    result = narrowed(rounded(total) + own_zero, x.dtype)
    lengths = tuple([1 if axis in axes else size for axis, size in enumerate(x.shape)])
    return reshape(result, lengths) if keep_dims else result


def _enter_position(type: str, records: Callable[[Expr, int], Expr]) -> None:
    # the position of the largest integer is that of the largest real number
    @operator(type, quantized=True)
    def position(input: Expr, axis: Known[int], *, output_type: str = "int64") -> Expr:
        positions = records(input, normalize_axis(axis, input.ndim, type))
        return cast(positions, np.dtype("int32" if output_type == "int32" else "int64"))

    position.__doc__ = "The position of the first extreme along an axis."


_enter_position("ARG_MAX", argmax)
_enter_position("ARG_MIN", argmin)


@operator("TOPK_V2", moves=True)
def largest(input: Expr, k: Known[int]) -> tuple[Expr, Expr]:
    """The k largest elements of the last axis, and their positions."""
    values, positions = topk(input, k)
    return values, cast(positions, np.dtype(np.int32))


@operator("CUMSUM")
def sums(input: Expr, axis: Known[int], *, exclusive: bool = False, reverse: bool = False) -> Expr:
    """Sums of the elements so far along an axis."""
    return cumsum(input, normalize_axis(axis, input.ndim, "CUMSUM"), exclusive=exclusive, reverse=reverse)


@operator("L2_NORMALIZATION", quantized=True)
def normalized(op: OperatorContext, input: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
    """x over its norm along the last axis; of quantised numbers in steps of 1/128."""
    if not is_quantized(op, "input"):
        return activated(_over_norm(input), fused_activation_function)
    op.only("fused_activation_function", "NONE")
    of_bytes(op, input=input)
    middle = int(np.iinfo(input.dtype).max) // 2 + 1 if input.dtype.kind == "u" else 0
    check_result(op, 128, middle)
    number = OverNorm(input.dtype.kind == "i")(cast(input, INT64) - single(op, "input")[1])
    return narrowed(number + middle, input.dtype)


@rounded_once
def _over_norm(x: Expr) -> Expr:
    return x / maximum(sqrt(reduce.sum(square(x), -1, keepdims=True)), _FLOAT32(_LEAST_NORM))


class OverNorm(Operation):
    """Integers over the norm of their row along the last axis, in 128ths."""

    rounds_late: bool = True
    """the factor 128 is part of the shift after the product, as for int8, and not of the number, as for uint8"""
    portable = False
    nondifferentiable = "results are rounded to integers, whose slope is 0 almost everywhere"
    unbatchable = "each row is normalised by itself already"
    examples = (Example(integers(4, 3, high=9)),)

    def infer(self, x: TensorType) -> TensorType:
        """Return int64 in the operand's shape."""
        if not x.rank or x.dtype.kind != "i":
            raise self.refuse((x,), "the operand must have rows of signed integers")
        return TensorType(x.shape, np.dtype(np.int64))

    def kernel(self, out: Array, x: Array) -> Array:
        """Multiply each row by the reciprocal of its norm."""
        number = x.astype(np.int64)
        multipliers, shifts = _inverse_roots(np.sum(number * number, -1, keepdims=True))
        if self.rounds_late:
            out[...] = multiplied(number, multipliers, _FACTOR - shifts)
        else:
            out[...] = divided(high(number << _FACTOR, multipliers), shifts)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return a multiplication and an addition for each element twice."""
        return 4 * types[0].size


def _inverse_roots(x: Array) -> tuple[Numbers, Numbers]:
    """Return for each integer multipliers of 31 bits and shifts: 1 / √x = multiplier · 2^(−31 − shift)."""
    size, shifts = np.maximum(x, 2), np.full(x.shape, 11, np.int64)
    while np.any(large := size >= 1 << 29):
        size, shifts = np.where(large, size >> 2, size), shifts + large
    pairs = (BITS - np.frexp(size.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    shifts = shifts - pairs
    number = (size << 2 * pairs) >> 1
    half, inverse = divided(number, 1), np.full(x.shape, _ONE, np.int64)
    for _ in range(_STEPS):
        cube = saturated(high(high(inverse, inverse), inverse), 6)
        inverse = saturated(high(3 * _ONE // 2, inverse) - high(half, cube), 3)
    inverse = high(inverse, _HALF_ROOT) << np.maximum(-shifts, 0)
    # 0 and 1 have no root to find
    small = x <= 1
    return np.where(small, (1 << BITS) - 1, inverse), np.where(small, 0, np.maximum(shifts, 0))
