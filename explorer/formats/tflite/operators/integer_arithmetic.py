"""Quantised arithmetic as in TensorFlow Lite's reference kernels: exact integer sums, which are then rounded.

A sum of products is an integer whose scale is the product of the operands' scales. To convert the sum to the result's
scale, it is multiplied by a 31-bit multiplier and shifted. After a convolution, both steps round, with halves away from
zero (gemmlowp). After a matrix product, both steps together round once, with halves upwards. All operations are
recorded, so the rounding is visible. LiteRT's faster kernels round differently: about one element in a thousand differs
by one step.
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
"""``fused_activation_function``: the activation that the converter has fused into an operator"""
Rounding = Callable[[Expr, NDArray[np.int64], NDArray[np.int64]], Expr]
_BITS = 31
"""number of bits of a multiplier"""
_MAX_SHIFT = 17
"""exponent at or above which every nonzero integer, times a factor of at least one half, exceeds 16 bits"""
_LIMITS = {
    "NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}  # fmt: skip
"""minimum and maximum real number of a result for each activation"""
_BIAS_TOLERANCE = 0.02
"""maximum deviation of a bias scale, relative to the result's scale"""
_ZERO_POINTS = {
    "int4": (-8, 7),
    **{
        name: (int(np.iinfo(name).min), int(np.iinfo(name).max))
        for name in ("int8", "uint8", "int16", "int32", "int64")
    },
}
"""minimum and maximum zero point of each dtype"""


class Quantization(NamedTuple):
    """Mapping from an operand's integers to real numbers, with one float32 scale, or one per channel."""

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    axis: int


def has_scale(op: OperatorContext, name: str) -> bool:
    """Return whether the operand or result ``name`` has a scale."""
    return f"{name}.scale" in op.definition.arguments or f"{name}.scale" in op.definition.weights


def is_quantized(op: OperatorContext, *names: str) -> bool:
    """Return whether all operands ``names`` have scales.

    Raise OperandError if only some operands, or only the result, have scales.
    """
    if all(has_scale(op, name) for name in names):
        return True
    check_real(op)
    return False


def quantization_of(op: OperatorContext, name: str) -> Quantization:
    """Return the scales and zero points of the operand or result ``name``; raise OperandError if it has none."""
    parts = []
    for part, dtype in (("scale", np.float32), ("zero_point", np.int64)):
        own = f"{name}.{part}"
        if own not in op.definition.arguments and own not in op.definition.weights:
            raise OperandError(f"{name} has no {part}", rule="quantised operands must have a scale and a zero point")
        array = op.weight(own).array if own in op.definition.weights else op.argument(own)
        parts.append(np.asarray(array, dtype).reshape(-1))
    scale, zero = parts[0].astype(np.float32), parts[1].astype(np.int64)
    if not np.all(np.isfinite(scale)) or scale.min() <= 0 or zero.size not in (1, scale.size):
        raise OperandError(f"{name} has the scale {scale[:4].tolist()}", rule="scales must be positive numbers")
    own_dtype = str(op.argument("output.dtype")) if name == "output" else _dtype(op, name)
    minimum, maximum = _ZERO_POINTS.get(own_dtype, (0, 0))
    if own_dtype not in _ZERO_POINTS or zero.min() < minimum or zero.max() > maximum:
        raise OperandError(
            f"{name} is {own_dtype} with the zero point {zero[:4].tolist()}",
            rule=f"the dtype must be one of {', '.join(_ZERO_POINTS)}, with zero points in its range",
        )
    return Quantization(scale, zero, op.integer(f"{name}.quantized_dimension", 0))


def _dtype(op: OperatorContext, name: str) -> str:
    value = op.input(name)
    if value is None:
        raise op.missing_input(name)
    return value.dtype.name


def scale_and_zero_point(op: OperatorContext, name: str) -> tuple[np.float32, int]:
    """Return the single scale and zero point of an operand or result; raise OperandError if it has several."""
    own = quantization_of(op, name)
    if own.scale.size != 1 or own.zero_point.size != 1:
        raise OperandError(f"{name} has {own.scale.size} scales", rule=f"{name} must have one scale and zero point")
    return own.scale[0], int(own.zero_point[0])


def check_result(op: OperatorContext, steps: int, zero_point: int) -> None:
    """Raise OperandError unless the result has the scale 1 / ``steps`` and the zero point ``zero_point``."""
    scale, zero = scale_and_zero_point(op, "output")
    if scale != np.float32(1 / steps) or zero != zero_point:
        raise OperandError(
            f"output has the scale {scale} and the zero point {zero}",
            rule=f"the result must have the scale 1/{steps} and the zero point {zero_point}",
        )


def saturated_cast(number: Expr, dtype: np.dtype[Any]) -> Expr:
    """Return ``number`` clipped to the limits of the integer dtype ``dtype``, in this dtype."""
    info = np.iinfo(dtype)
    return cast(clip(number, int(info.min), int(info.max)), dtype)


def requantize(
    op: OperatorContext,
    total: Expr,
    factors: NDArray[np.float64],
    x: Expr,
    activation: str = "NONE",
    rounding: Rounding | None = None,
) -> Expr:
    """Return ``total`` · ``factors`` as quantised integers of the result, which has the dtype of ``x``.

    ``total`` contains exact integer sums. There is one factor, or one for each element of the last axis. The default of
    ``rounding`` is ``rounded_twice``.
    """
    scale, zero = scale_and_zero_point(op, "output")
    if op.argument("output.dtype") != x.dtype.name:
        raise OperandError(
            f"input is {x.type}, the result {op.argument('output.dtype')}", rule="both must have the same dtype"
        )
    rounded = (rounding or rounded_twice)(cast(total, INT64), *quantized_multipliers(factors))
    low, high = result_limits(scale, zero, x.dtype, activation)
    return cast(clip(rounded + zero, low, high), x.dtype)


def result_limits(scale: np.float32, zero: int, dtype: np.dtype[Any], activation: str) -> tuple[int, int]:
    """Return the minimum and maximum integer of a result after its activation."""
    if activation not in _LIMITS:
        raise OperandError(
            f"fused_activation_function={activation!r}",
            rule=f"the activation of a quantised operator must be one of {', '.join(_LIMITS)}",
        )
    info = np.iinfo(dtype)
    # If the scale is very small, the quotient is ∞.
    ends = [end if end is None else float(min(np.float64(end) / np.float64(scale), 1e9)) for end in _LIMITS[activation]]
    low, high = [None if end is None else zero + _rounded(float(np.float32(end))) for end in ends]
    minimum = int(info.min) if low is None else max(int(info.min), low)
    return minimum, int(info.max) if high is None else min(int(info.max), high)


def rescale(number: Expr, factor: Any) -> Expr:
    """Return ``number`` · ``factor``, rounded after the product and again after the shift."""
    return rounded_twice(number, *quantized_multipliers(np.array(factor, np.float64)))


def quantized_multipliers(factors: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return 31-bit multipliers and exponents with factor = multiplier · 2^(exponent − 31).

    Raise OperandError if a factor is NaN or too large.
    """
    if not np.all(np.abs(factors) < 1 << (_BITS - 1)):
        raise OperandError(
            f"a factor of {factors.reshape(-1)[np.abs(factors).argmax()]:.3g}",
            rule="the factor that results from scales and alpha must be below 2³⁰",
        )
    pairs = []
    for factor in factors.reshape(-1).tolist():
        fraction, shift = math.frexp(factor)
        multiplier = _rounded(fraction * (1 << _BITS))
        if multiplier == 1 << _BITS:
            multiplier, shift = multiplier // 2, shift + 1
        # too small for any nonzero result
        pairs.append((0, 0) if shift < -_BITS else (multiplier, shift))
    multipliers, shifts = np.array(pairs, np.int64).reshape(-1, 2).T
    return multipliers.reshape(factors.shape), shifts.reshape(factors.shape)


def rounded_once(total: Expr, multipliers: NDArray[np.int64], shifts: NDArray[np.int64]) -> Expr:
    """Return ``total`` · ``multipliers`` · 2^(shifts − 31), rounded to the nearest integer, with halves upwards."""
    down = _BITS - shifts
    product = total * tensor(multipliers) + tensor(np.int64(1) << (down - 1))
    result: Expr = function("right_shift")(product, tensor(down))
    return result


def rounded_wide(total: Expr, multipliers: NDArray[np.int64], shifts: NDArray[np.int64]) -> Expr:
    """Round like ``rounded_once``, but with the multipliers rounded to 15 bits, as for 16-bit operands."""
    # Shifts are limited, because beyond the limit all nonzero numbers exceed 16 bits anyway.
    down = 15 - np.minimum(shifts, _MAX_SHIFT)
    short, more = np.minimum((multipliers + (1 << 15)) >> 16, 0x7FFF), np.maximum(1 - down, 0)
    down = down + more
    product = total * tensor(short << more) + tensor(np.int64(1) << (down - 1))
    result: Expr = function("right_shift")(product, tensor(down))
    return result


def rounded_twice(total: Expr, multipliers: NDArray[np.int64], shifts: NDArray[np.int64]) -> Expr:
    """Return ``total`` · ``multipliers`` · 2^(shifts − 31), rounded after the product and again after the shift."""
    if shifts.max(initial=0) > 0:
        left = np.maximum(shifts, 0)
        # Clipping keeps the product within 64 bits; clipped numbers exceed the limits of any result anyway.
        maximum = np.int64(1) << (_BITS - left)
        total = clip(total, -maximum, maximum) * tensor(np.int64(1) << left)
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
    """Raise OperandError if an operand in ``values`` does not have the dtype ``dtype``."""
    for name, value in values.items():
        if value.dtype != dtype:
            raise OperandError(
                f"{name} is {value.type}",
                rule=f"{name} of a quantised operator must be {dtype.name}; other dtypes are not supported",
            )


def check_dtypes(op: OperatorContext, *, wide: bool = False, signed: bool = False, **values: Expr) -> None:
    """Raise OperandError unless all operands in ``values`` have 8 bits and the dtype of the result.

    ``wide`` also allows 16 bits with zero points of 0. ``signed`` excludes uint8.
    """
    allowed = ("int8", *["uint8"] * (not signed), *["int16"] * wide)
    for name, value in values.items():
        if value.dtype.name not in allowed or op.argument("output.dtype") != value.dtype.name:
            raise OperandError(
                f"{name} is {value.type}, the result {op.argument('output.dtype')}",
                rule=f"quantised operands and results must be {' or '.join(allowed)}; other dtypes are not supported",
            )
        if value.dtype != _INT16:
            continue
        zero, own_zero = scale_and_zero_point(op, name)[1], scale_and_zero_point(op, "output")[1]
        if zero or own_zero:
            raise OperandError(
                f"{name} and output have the zero points {zero} and {own_zero}",
                rule="int16 tensors must have the zero point 0",
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
    """Return the product of ``x`` and ``weights``, plus ``bias``, as quantised integers of the result.

    ``name`` is the name of the weights. They have one slice along their first axis for each channel of the result; in
    the file, this is the axis ``axis``. ``product(x, weights)`` is called with both operands converted exactly to
    float64, and returns an array whose last axis contains the channels. The default of ``rounding`` is the rounding of
    convolutions.
    """
    factors, zero = _factors(op, x, name, weights, axis)
    total = product(without_zero_point(x, scale_and_zero_point(op, "input")[1]), without_zero_point(weights, zero))
    if bias is not None:
        _check_bias(op, bias, name, x)
        total = cast(total, INT64) + cast(with_shape("bias", bias, weights.shape[:1]), INT64)
    return requantize(op, total, factors, x, activation, rounding or rounding_of(x))


def _factors(op: OperatorContext, x: Expr, name: str, weights: Expr, axis: int) -> tuple[NDArray[np.float64], int]:
    """Return the factors that convert integer sums to the result's scale, and the zero point of the weights.

    The weights must have a single scale, or one scale for each index of the axis ``axis``. Raise OperandError if they
    have other scales, or zero points that interpreters do not support. An int16 input requires int8 weights.
    """
    check_dtypes(op, wide=True, input=x)
    with_dtype(INT8 if x.dtype == _INT16 else x.dtype, **{name: weights})
    own, (scale, _) = quantization_of(op, name), scale_and_zero_point(op, "input")
    several, is_signed = own.scale.size > 1, x.dtype.kind == "i"
    if (
        own.scale.size not in (1, weights.shape[0])
        or (several and own.axis != axis)
        or (own.zero_point.any() and (is_signed or several))
    ):
        raise OperandError(
            f"{name} has {own.scale.size} scales along axis {own.axis}",
            rule="there must be a single scale, or one scale for each index of the axis; zero points must be 0, except "
            "the zero point of a single uint8 scale",
        )
    # in single precision for uint8, as in the interpreter
    with np.errstate(over="ignore"):
        products = scale * own.scale if not is_signed else np.float64(scale) * own.scale.astype(np.float64)
    return products.astype(np.float64) / np.float64(scale_and_zero_point(op, "output")[0]), int(own.zero_point[0])


def _check_bias(op: OperatorContext, bias: Expr, name: str, x: Expr) -> None:
    """Raise OperandError if interpreters would reject ``bias``.

    The bias must be int32, or int64 for an int16 input, with the zero point 0. Its scale must be the product of the
    scales of the input ``x`` and of the weights, whose name is ``name``.
    """
    with_dtype(INT64 if x.dtype == _INT16 else np.dtype(np.int32), bias=bias)
    if not has_scale(op, "bias") or quantization_of(op, name).scale.size > 1:
        return
    expected = np.float64(scale_and_zero_point(op, "input")[0]) * np.float64(scale_and_zero_point(op, name)[0])
    is_product = op.definition.type == "FULLY_CONNECTED"
    (scale, zero), own = scale_and_zero_point(op, "bias"), np.float64(scale_and_zero_point(op, "output")[0])
    # Interpreters check the scale in matrix products and for uint8, and the zero point in convolutions.
    is_wrong = (is_product or x.dtype.kind == "u") and abs(expected - np.float64(scale)) > _BIAS_TOLERANCE * own
    if is_wrong or (zero and not is_product):
        raise OperandError(
            f"bias has the scale {scale:.6g} and the zero point {zero}",
            rule=f"the scale must be {expected:.6g}, the scale of the input times the scale of the weights, and the "
            "zero point must be 0",
            fix="convert the model again",
        )


def rounding_of(x: Expr) -> Rounding:
    """Return the rounding of sums of products with ``x``; if ``x`` is int16, multipliers are shorter."""
    return rounded_wide if x.dtype == _INT16 else rounded_twice


def without_zero_point(x: Expr, zero: NDArray[np.int64] | int) -> Expr:
    """Return ``x`` − ``zero`` as float64, in which sums of products are exact."""
    wide = cast(x, _FLOAT64)
    return wide if not np.any(zero) else wide - tensor(np.asarray(zero, np.float64))


def _rounded(value: float) -> int:
    """Return the nearest integer, with halves rounded away from zero."""
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)
