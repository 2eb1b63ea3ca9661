"""Reductions along axes, indices of extremes, cumulative sums, and norms.

Quantised operands are computed as in TensorFlow Lite's kernels: the multiplier of a mean includes the division by the
number of elements, a sum is computed in single precision, and the reciprocal of a norm is computed with 32-bit Newton
iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.types.tensor_type import AnyType, Array, TensorType, normalize_axis
from explorer.formats.tflite.operators.activation import apply_activation, check_float
from explorer.formats.tflite.operators.fixed_point import (
    BITS,
    Numbers,
    high_product,
    rounded_shift,
    saturated_shift,
    scaled_product,
)
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT64,
    Activation,
    check_dtypes,
    check_result,
    is_quantized,
    quantized_multipliers,
    rounded_twice,
    rounded_wide,
    saturated_cast,
    scale_and_zero_point,
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
_MAX_BITS = 32
"""maximum number of bits by which a mean's multiplier is extended before it is divided by the number of elements"""
_BEYOND = 1 << 20
"""an integer that exceeds the limits of all results"""
_MIN_NORM = 1e-6
"""minimum norm by which L2_NORMALIZATION divides"""
_ONE = 1 << 28
"""the number one in fixed point with three integer bits"""
_HALF_ROOT = 1518500250
"""√2 / 2 with 31 bits"""
_ITERATIONS = 5
_RESULT_BITS = 7
"""number of fractional bits of a normalised 8-bit result"""


def axes_of(axis: tuple[int, ...], x: Expr) -> tuple[int, ...]:
    """Return the axes ``axis`` of ``x`` as nonnegative integers without duplicates."""
    return tuple(dict.fromkeys([normalize_axis(each, x.ndim, "axis") for each in axis]))


def _register(type: str, records: Callable[..., Expr], moves: bool = False) -> None:
    @operator(type, moves=moves)
    def reduction(input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
        return cast(records(input, axes_of(axis, input), keepdims=keep_dims), input.dtype)

    reduction.__doc__ = f"Return {records.__name__} along axes."


_register("REDUCE_MAX", reduce.max, moves=True)
_register("REDUCE_MIN", reduce.min, moves=True)
_register("REDUCE_ANY", reduce.any)
_register("REDUCE_ALL", reduce.all)


@operator("MEAN", quantized=True)
def mean(op: OperatorContext, input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
    """Return the means along the axes ``axis``."""
    axes = axes_of(axis, input)
    if not is_quantized(op, "input"):
        return cast(reduce.mean(check_float("input", input), axes, keepdims=keep_dims), input.dtype)
    check_dtypes(op, wide=True, input=input)
    (scale, zero), (own_scale, own_zero) = scale_and_zero_point(op, "input"), scale_and_zero_point(op, "output")
    count = prod([input.shape[axis] for axis in axes])
    most = 1 << (32 - 8 * input.dtype.itemsize)
    if not 0 < count <= most:
        raise OperandError(
            f"{count} elements of {input.type}",
            rule=f"a mean must have at least one element, and at most {most} {input.dtype.name} elements",
        )
    total = reduce.sum(cast(input, INT64) - zero, axes, keepdims=keep_dims)
    multiplier, shift = map(int, quantized_multipliers(np.array(_FLOAT64(scale) / _FLOAT64(own_scale))))
    finer = max(min(count.bit_length() - 1, _MAX_BITS, BITS + shift), 0)
    parts = np.array((multiplier << finer) // count), np.array(shift - finer)
    return saturated_cast(rounded_twice(total, *parts) + own_zero, input.dtype)


@operator("SUM", quantized=True)
def sum(op: OperatorContext, input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
    """Return the sums along the axes ``axis``."""
    axes = axes_of(axis, input)
    if not is_quantized(op, "input"):
        return cast(reduce.sum(input, axes, keepdims=keep_dims), input.dtype)
    check_dtypes(op, wide=True, input=input)
    (scale, zero), (own_scale, own_zero) = scale_and_zero_point(op, "input"), scale_and_zero_point(op, "output")
    count = prod([input.shape[axis] for axis in axes])
    with np.errstate(over="ignore"):
        factor = scale / own_scale
        if not np.isfinite(factor):
            raise OperandError(f"a factor of {factor}", rule="the quotient of the scales must be finite in float32")
        bias = _FLOAT32(-zero) * factor * _FLOAT32(count)
    total = reduce.sum(cast(input, INT64), axes, keepdims=keep_dims)
    value = cast(total, np.dtype(_FLOAT32)) * factor + bias
    # the sum may exceed 64-bit integers
    nearest = cast(clip(trunc(value + sign(value) * _FLOAT32(0.5)), -_BEYOND, _BEYOND), INT64)
    return saturated_cast(nearest + own_zero, input.dtype)


@operator("REDUCE_PROD", quantized=True)
def product(op: OperatorContext, input: Expr, axis: Known[Ints], *, keep_dims: bool = False) -> Expr:
    """Return the products along the axes ``axis``; for quantised operands, each partial product is rounded."""
    x, axes = input, axes_of(axis, input)
    if not is_quantized(op, "input"):
        return cast(reduce.prod(x, axes, keepdims=keep_dims), x.dtype)
    check_dtypes(op, wide=True, signed=True, input=x)
    (scale, zero), (own_scale, own_zero) = scale_and_zero_point(op, "input"), scale_and_zero_point(op, "output")
    count = prod([x.shape[axis] for axis in axes])
    if not count:
        raise OperandError(f"no elements along {axes} of {x.type}", rule="a product must have at least one factor")
    with np.errstate(over="ignore"):
        parts = quantized_multipliers(np.array(_FLOAT64(scale) / _FLOAT64(own_scale) ** (1 / count)))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    in_rows = transpose(cast(x, INT64) - zero, (*sorted(axes), *kept))
    factors = reshape(in_rows, (count, *[x.shape[axis] for axis in kept]))

    # The interpreter stores each product in 32 bits.
    def rounded(number: Expr) -> Expr:
        return cast(cast(rounded_wide(number, *parts), np.dtype(np.int32)), INT64)

    total, _ = scan(lambda total, each: (rounded(total * each), None), factors[0], factors[1:], name="products")
    result = saturated_cast(rounded(total) + own_zero, x.dtype)
    lengths = tuple([1 if axis in axes else size for axis, size in enumerate(x.shape)])
    return reshape(result, lengths) if keep_dims else result


def _register_position(type: str, records: Callable[[Expr, int], Expr]) -> None:
    # Quantisation preserves the order, so the stored integers are compared.
    @operator(type, quantized=True)
    def position(input: Expr, axis: Known[int], *, output_type: str = "int64") -> Expr:
        positions = records(input, normalize_axis(axis, input.ndim, type))
        return cast(positions, np.dtype("int32" if output_type == "int32" else "int64"))

    position.__doc__ = "Return the index of the first extreme along an axis."


_register_position("ARG_MAX", argmax)
_register_position("ARG_MIN", argmin)


@operator("TOPK_V2", moves=True)
def largest(input: Expr, k: Known[int]) -> tuple[Expr, Expr]:
    """Return the ``k`` largest elements along the last axis, and their indices."""
    values, positions = topk(input, k)
    return values, cast(positions, np.dtype(np.int32))


@operator("CUMSUM")
def sums(input: Expr, axis: Known[int], *, exclusive: bool = False, reverse: bool = False) -> Expr:
    """Return the cumulative sums along ``axis``."""
    return cumsum(input, normalize_axis(axis, input.ndim, "CUMSUM"), exclusive=exclusive, reverse=reverse)


@operator("L2_NORMALIZATION", quantized=True)
def normalized(op: OperatorContext, input: Expr, *, fused_activation_function: Activation = "NONE") -> Expr:
    """Return ``input`` divided by its norm along the last axis; quantised results have steps of 1/128."""
    if not is_quantized(op, "input"):
        return apply_activation(_over_norm(input), fused_activation_function)
    op.only("fused_activation_function", "NONE")
    check_dtypes(op, input=input)
    middle = int(np.iinfo(input.dtype).max) // 2 + 1 if input.dtype.kind == "u" else 0
    check_result(op, 128, middle)
    number = OverNorm(input.dtype.kind == "i")(cast(input, INT64) - scale_and_zero_point(op, "input")[1])
    return saturated_cast(number + middle, input.dtype)


@rounded_once
def _over_norm(x: Expr) -> Expr:
    return x / maximum(sqrt(reduce.sum(square(x), -1, keepdims=True)), _FLOAT32(_MIN_NORM))


class OverNorm(Operation):
    """Integers divided by the norm of their row (last axis), in steps of 1/128."""

    rounds_late: bool = True
    """whether the factor 128 is applied after the product (int8) or before it (uint8)"""
    portable = False
    nondifferentiable = "results are rounded to integers, so the gradient is 0 almost everywhere"
    unbatchable = "each row is already normalised separately"
    examples = (Example(integers(4, 3, high=9)),)

    def infer(self, x: TensorType) -> TensorType:
        """Return int64 with the operand's shape."""
        if not x.rank or x.dtype.kind != "i":
            raise self.refuse((x,), "the operand must have rows of signed integers")
        return TensorType(x.shape, np.dtype(np.int64))

    def kernel(self, out: Array, x: Array) -> Array:
        """Multiply each row by the reciprocal of its norm."""
        number = x.astype(np.int64)
        multipliers, shifts = _inverse_roots(np.sum(number * number, -1, keepdims=True))
        if self.rounds_late:
            out[...] = scaled_product(number, multipliers, _RESULT_BITS - shifts)
        else:
            out[...] = rounded_shift(high_product(number << _RESULT_BITS, multipliers), shifts)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return two multiplications and two additions for each element."""
        return 4 * types[0].size


def _inverse_roots(x: Array) -> tuple[Numbers, Numbers]:
    """Return 31-bit multipliers and shifts for integers ``x``, where 1 / √x = multiplier · 2^(−31 − shift)."""
    size, shifts = np.maximum(x, 2), np.full(x.shape, 11, np.int64)
    while np.any(large := size >= 1 << 29):
        size, shifts = np.where(large, size >> 2, size), shifts + large
    pairs = (BITS - np.frexp(size.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    shifts = shifts - pairs
    number = (size << 2 * pairs) >> 1
    half, inverse = rounded_shift(number, 1), np.full(x.shape, _ONE, np.int64)
    for _ in range(_ITERATIONS):
        cube = saturated_shift(high_product(high_product(inverse, inverse), inverse), 6)
        inverse = saturated_shift(high_product(3 * _ONE // 2, inverse) - high_product(half, cube), 3)
    inverse = high_product(inverse, _HALF_ROOT) << np.maximum(-shifts, 0)
    # 0 and 1 need no iterations.
    small = x <= 1
    return np.where(small, (1 << BITS) - 1, inverse), np.where(small, 0, np.maximum(shifts, 0))
