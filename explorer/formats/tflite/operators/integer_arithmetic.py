"""Quantised arithmetic of 8 bits, as TensorFlow Lite's reference kernels do it: exact sums, and a rounding of each.

A sum of products is an integer in the scale of both operands. A product with a multiplier of 31 bits, and a shift,
make it one in the scale of the result. After a convolution both round, halves away from zero, one after the other
(gemmlowp); after a product of matrices both together, halves upwards. All of it is recorded, so that it shows where
numbers are rounded. LiteRT's faster kernels round otherwise, and differ by one step in one element of a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import function
from explorer.formats.common.operator_checks import with_shape
from explorer.formats.tflite.operators.table import check_real
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.nn.activation import clip

INT8, _INT16, INT64, _FLOAT64 = (np.dtype(name) for name in ("int8", "int16", "int64", "float64"))
Activation = Literal["NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH"]
"""``fused_activation_function``: what the converter has merged into the operator before it"""
Rounding = Callable[[Expr, NDArray[np.int64], NDArray[np.int64]], Expr]
_BITS = 31
"""bits of a multiplier"""
_MOST_SHIFT = 17
"""power of two by which a half, and each larger factor, makes 1 a number beyond 16 bits"""
_LIMITS = {
    "NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}  # fmt: skip
"""activation → the least and the largest real number of a result"""
_BIAS_ERROR = 0.02
"""largest difference of a bias' scale, in parts of the result's"""
_ENDS = {
    "int4": (-8, 7),
    **{
        name: (int(np.iinfo(name).min), int(np.iinfo(name).max))
        for name in ("int8", "uint8", "int16", "int32", "int64")
    },
}
"""dtype → the least and the largest zero point"""


class Scaled(NamedTuple):
    """The map from the integers of an operand to real ones: scales as float32, one or one a channel."""

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    axis: int


def has_scale(op: OperatorContext, name: str) -> bool:
    """Whether an operand or result has a scale."""
    return f"{name}.scale" in op.definition.arguments or f"{name}.scale" in op.definition.weights


def is_quantized(op: OperatorContext, *names: str) -> bool:
    """Whether operands have scales; raises OperandError where only some of them have, or only the result."""
    if all(has_scale(op, name) for name in names):
        return True
    check_real(op)
    return False


def scaled(op: OperatorContext, name: str) -> Scaled:
    """Return the scale and zero point of an operand or result; raises OperandError where it has none."""
    parts = []
    for part, dtype in (("scale", np.float32), ("zero_point", np.int64)):
        own = f"{name}.{part}"
        if own not in op.definition.arguments and own not in op.definition.weights:
            raise OperandError(f"{name} has no {part}", rule="operands of 8 bits must have both")
        array = op.weight(own).array if own in op.definition.weights else op.argument(own)
        parts.append(np.asarray(array, dtype).reshape(-1))
    scale, zero = parts[0].astype(np.float32), parts[1].astype(np.int64)
    if not np.all(np.isfinite(scale)) or scale.min() <= 0 or zero.size not in (1, scale.size):
        raise OperandError(f"{name} has the scale {scale[:4].tolist()}", rule="scales must be positive numbers")
    own_dtype = str(op.argument("output.dtype")) if name == "output" else _dtype(op, name)
    least, most = _ENDS.get(own_dtype, (0, 0))
    if own_dtype not in _ENDS or zero.min() < least or zero.max() > most:
        raise OperandError(
            f"{name} is of {own_dtype}, and has the zero point {zero[:4].tolist()}",
            rule=f"a zero point must be one of the numbers of {', '.join(_ENDS)}",
        )
    return Scaled(scale, zero, op.integer(f"{name}.quantized_dimension", 0))


def _dtype(op: OperatorContext, name: str) -> str:
    value = op.input(name)
    if value is None:
        raise op.missing_input(name)
    return value.dtype.name


def single(op: OperatorContext, name: str) -> tuple[np.float32, int]:
    """Return the one scale and zero point of an operand or result; raises OperandError for several."""
    own = scaled(op, name)
    if own.scale.size != 1 or own.zero_point.size != 1:
        raise OperandError(f"{name} has {own.scale.size} scales", rule=f"{name} must have one")
    return own.scale[0], int(own.zero_point[0])


def check_result(op: OperatorContext, steps: int, zero_point: int) -> None:
    """Raise OperandError where the result has another scale than 1 / steps, or another zero point."""
    scale, zero = single(op, "output")
    if scale != np.float32(1 / steps) or zero != zero_point:
        raise OperandError(
            f"output has the scale {scale} and the zero point {zero}",
            rule=f"the result must have the scale 1/{steps} and the zero point {zero_point}",
        )


def narrowed(number: Expr, dtype: np.dtype[Any]) -> Expr:
    """Return numbers in a dtype of integers, those beyond its limits as the limits."""
    info = np.iinfo(dtype)
    return cast(clip(number, int(info.min), int(info.max)), dtype)


def requantized(
    op: OperatorContext,
    total: Expr,
    factors: NDArray[np.float64],
    x: Expr,
    activation: str = "NONE",
    rounding: Rounding | None = None,
) -> Expr:
    """Return exact sums times factors, one or one for each element of the last axis, as integers of the result.

    ``x`` is the operand whose dtype the result has; the rounding is ``rounded_twice`` for None.
    """
    scale, zero = single(op, "output")
    if op.argument("output.dtype") != x.dtype.name:
        raise OperandError(
            f"input is {x.type}, the result of {op.argument('output.dtype')}", rule="both must be of one dtype"
        )
    rounded = (rounding or rounded_twice)(cast(total, INT64), *quantized_multipliers(factors))
    low, high = limits(scale, zero, x.dtype, activation)
    return cast(clip(rounded + zero, low, high), x.dtype)


def limits(scale: np.float32, zero: int, dtype: np.dtype[Any], activation: str) -> tuple[int, int]:
    """Return the least and the largest number of a result after its activation."""
    if activation not in _LIMITS:
        raise OperandError(
            f"fused_activation_function={activation!r}",
            rule=f"quantised, the activation must be one of {', '.join(_LIMITS)}",
        )
    info = np.iinfo(dtype)
    # a scale may be so small that the quotient is ∞
    ends = [end if end is None else float(min(np.float64(end) / np.float64(scale), 1e9)) for end in _LIMITS[activation]]
    low, high = [None if end is None else zero + _rounded(float(np.float32(end))) for end in ends]
    least = int(info.min) if low is None else max(int(info.min), low)
    return least, int(info.max) if high is None else min(int(info.max), high)


def rescaled(number: Expr, factor: Any) -> Expr:
    """Return integers times one factor, rounded after the product and after the shift."""
    return rounded_twice(number, *quantized_multipliers(np.array(factor, np.float64)))


def quantized_multipliers(factors: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return factors as multipliers of 31 bits, and the powers of two to multiply by after them.

    Raises OperandError for factors that are too large, or NaN.
    """
    if not np.all(np.abs(factors) < 1 << (_BITS - 1)):
        raise OperandError(
            f"a factor of {factors.reshape(-1)[np.abs(factors).argmax()]:.3g}",
            rule="scales, and alpha, must make a factor below 2³⁰",
        )
    pairs = []
    for factor in factors.reshape(-1).tolist():
        fraction, shift = math.frexp(factor)
        multiplier = _rounded(fraction * (1 << _BITS))
        if multiplier == 1 << _BITS:
            multiplier, shift = multiplier // 2, shift + 1
        # smaller than any result
        pairs.append((0, 0) if shift < -_BITS else (multiplier, shift))
    multipliers, shifts = np.array(pairs, np.int64).reshape(-1, 2).T
    return multipliers.reshape(factors.shape), shifts.reshape(factors.shape)


def rounded_once(total: Expr, multipliers: NDArray[np.int64], shifts: NDArray[np.int64]) -> Expr:
    """Return integers times multipliers · 2^(shift − 31), rounded to the nearest, halves upwards."""
    down = _BITS - shifts
    product = total * tensor(multipliers) + tensor(np.int64(1) << (down - 1))
    result: Expr = function("right_shift")(product, tensor(down))
    return result


def rounded_wide(total: Expr, multipliers: NDArray[np.int64], shifts: NDArray[np.int64]) -> Expr:
    """Return the same by multipliers of 15 bits, as sums of products of 16 bits have it, rounded together."""
    # where a factor is larger, all numbers but zero are beyond the limits of 16 bits
    down = 15 - np.minimum(shifts, _MOST_SHIFT)
    short, more = np.minimum((multipliers + (1 << 15)) >> 16, 0x7FFF), np.maximum(1 - down, 0)
    down = down + more
    product = total * tensor(short << more) + tensor(np.int64(1) << (down - 1))
    result: Expr = function("right_shift")(product, tensor(down))
    return result


def rounded_twice(total: Expr, multipliers: NDArray[np.int64], shifts: NDArray[np.int64]) -> Expr:
    """Return integers times multipliers · 2^(shift − 31), rounded after the product and after the shift."""
    if shifts.max(initial=0) > 0:
        left = np.maximum(shifts, 0)
        # what is cut off is beyond the limits of any result, and the product has room in 64 bits
        most = np.int64(1) << (_BITS - left)
        total = clip(total, -most, most) * tensor(np.int64(1) << left)
    product = total * tensor(multipliers)
    half = 1 << (_BITS - 1)
    shift = function("right_shift")
    high = where(product >= 0, shift(product + half, _BITS), -shift(half - 1 - product, _BITS))
    right = np.maximum(-shifts, 0)
    if not right.any():
        return high
    mask = (np.int64(1) << right) - 1
    rest = function("bitwise_and")(high, tensor(mask))
    threshold = tensor(mask >> 1) + cast(high < 0, INT64)
    result: Expr = shift(high, tensor(right)) + cast(rest > threshold, INT64)
    return result


def with_dtype(dtype: np.dtype[Any], **values: Expr) -> None:
    """Raise OperandError where an operand, by its name, is of another dtype."""
    for name, value in values.items():
        if value.dtype != dtype:
            raise OperandError(
                f"{name} is {value.type}",
                rule=f"quantised, {name} must be of {dtype.name}; others are not computed",
            )


def of_bytes(op: OperatorContext, *, wide: bool = False, signed: bool = False, **values: Expr) -> None:
    """Raise OperandError for operands, by name, of other than 8 bits, or of another dtype than the result.

    ``wide`` allows 16 bits, too, whose zero points are 0; ``signed`` no uint8.
    """
    allowed = ("int8", *["uint8"] * (not signed), *["int16"] * wide)
    for name, value in values.items():
        if value.dtype.name not in allowed or op.argument("output.dtype") != value.dtype.name:
            raise OperandError(
                f"{name} is {value.type}, the result of {op.argument('output.dtype')}",
                rule=f"quantised, operands and result must be of {', or of '.join(allowed)}; others are not computed",
            )
        if value.dtype == _INT16 and (single(op, name)[1] or single(op, "output")[1]):
            raise OperandError(
                f"{name} and output have the zero points {single(op, name)[1]} and {single(op, 'output')[1]}",
                rule="zero points of int16 must be 0",
            )


def quantized_product(
    op: OperatorContext,
    x: Expr,
    name: str,
    weights: Expr,
    bias: Expr | None,
    product: Callable[[Expr, Expr], Expr],
    *,
    axis: int = 0,
    activation: str,
    rounding: Rounding | None = None,
) -> Expr:
    """Return a product of an input and weights plus a bias, as integers of the result.

    ``name`` is the name of the weights, whose first axis is that of filters or results, and ``axis`` that axis in the
    file. ``product`` gets both as exact real numbers, and returns sums with the results in the last axis. For None
    sums are rounded as those of convolutions.
    """
    factors, zero = _factors(op, x, name, weights, axis)
    total = product(exact(x, single(op, "input")[1]), exact(weights, zero))
    if bias is not None:
        _check_bias(op, bias, name, x)
        total = cast(total, INT64) + cast(with_shape("bias", bias, weights.shape[:1]), INT64)
    return requantized(op, total, factors, x, activation, rounding or rounding_of(x))


def _factors(op: OperatorContext, x: Expr, name: str, weights: Expr, axis: int) -> tuple[NDArray[np.float64], int]:
    """Return the factors that make sums of products integers of the result, and the weights' zero point.

    The weights have one scale, or one for each filter or result along an axis; raises OperandError for
    others, and for zero points that interpreters do not take. Of an input of int16 the weights are of int8.
    """
    of_bytes(op, wide=True, input=x)
    with_dtype(INT8 if x.dtype == _INT16 else x.dtype, **{name: weights})
    own, (scale, _) = scaled(op, name), single(op, "input")
    several, is_signed = own.scale.size > 1, x.dtype.kind == "i"
    if (
        own.scale.size not in (1, weights.shape[0])
        or (several and own.axis != axis)
        or (own.zero_point.any() and (is_signed or several))
    ):
        raise OperandError(
            f"{name} has {own.scale.size} scales along axis {own.axis}",
            rule="there must be one scale, or one for each filter or result, and zero points of "
            "0, or one zero point for uint8",
        )
    # in single precision for uint8, as the interpreter computes it
    with np.errstate(over="ignore"):
        products = scale * own.scale if not is_signed else np.float64(scale) * own.scale.astype(np.float64)
    return products.astype(np.float64) / np.float64(single(op, "output")[0]), int(own.zero_point[0])


def _check_bias(op: OperatorContext, bias: Expr, name: str, x: Expr) -> None:
    """Raise OperandError for a bias that interpreters refuse.

    It must be of int32, or of int64 for an input of int16, without a zero point, and have the scale of the products of
    input and weights, which have that ``name``.
    """
    with_dtype(INT64 if x.dtype == _INT16 else np.dtype(np.int32), bias=bias)
    if not has_scale(op, "bias") or scaled(op, name).scale.size > 1:
        return
    expected = np.float64(single(op, "input")[0]) * np.float64(single(op, name)[0])
    is_product = op.definition.type == "FULLY_CONNECTED"
    (scale, zero), own = single(op, "bias"), np.float64(single(op, "output")[0])
    # interpreters read the scale in products of matrices and for uint8, and the zero point in convolutions
    misfits = (is_product or x.dtype.kind == "u") and abs(expected - np.float64(scale)) > _BIAS_ERROR * own
    if misfits or (zero and not is_product):
        raise OperandError(
            f"bias has the scale {scale:.6g} and the zero point {zero}",
            rule=f"they must be {expected:.6g}, the scale of input times that of the weights, and 0",
            fix="convert the model again",
        )


def rounding_of(x: Expr) -> Rounding:
    """Return how sums of products are rounded: those of an input of int16 by shorter multipliers."""
    return rounded_wide if x.dtype == _INT16 else rounded_twice


def exact(x: Expr, zero: NDArray[np.int64] | int) -> Expr:
    """Return integers less their zero point as real ones of 64 bits, in which sums of products are exact."""
    wide = cast(x, _FLOAT64)
    return wide if not np.any(zero) else wide - tensor(np.asarray(zero, np.float64))


def _rounded(value: float) -> int:
    """Return the nearest integer, a half away from zero."""
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)
