"""Activation operators, and activations that the converter has fused into the preceding operator.

A fused activation is recorded as a separate operation, so that it is visible. Plans fuse it again if that is faster.
Quantised rectifiers multiply and round like quantised products. Smooth functions of quantised operands are computed
with look-up tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import function
from explorer.formats.common.operator_checks import with_one_dtype
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT8,
    INT64,
    Activation,
    check_dtypes,
    check_result,
    is_quantized,
    requantize,
    rescale,
    saturated_cast,
    scale_and_zero_point,
    with_dtype,
    without_zero_point,
)
from explorer.formats.tflite.operators.quantized_tables import interpolate, interpolation_table, look_up
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.rounding_and_bits import floor, trunc
from explorer.ops.elementwise.unary import relu, tanh
from explorer.ops.nn.activation import clip, elu, gelu, hardswish, leaky_relu, relu6
from explorer.ops.nn.softmax import log_softmax, softmax
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import sum

_RECTIFIERS: dict[str, Callable[[Expr], Expr]] = {
    "RELU": relu,
    "RELU6": relu6,
    "RELU_N1_TO_1": lambda x: clip(x, -1, 1),
    "RELU_0_TO_1": lambda x: clip(x, 0, 1),
}
_SMOOTH: dict[str, Callable[[Expr], Expr]] = {
    "LOGISTIC": function("sigmoid"),
    "TANH": tanh,
    "ELU": elu,
    "HARD_SWISH": hardswish,
}
_FUSED: dict[str, Callable[[Expr], Expr]] = {"NONE": lambda x: x, "TANH": tanh, **_RECTIFIERS}
_MAX_LENGTH = 1 << 16
"""maximum length of the axis of a 16-bit softmax"""


def apply_activation(y: Expr, activation: Activation) -> Expr:
    """Apply ``activation`` to ``y`` as a separate operation."""
    return _FUSED[activation](y)


def check_float(name: str, x: Expr) -> Expr:
    """Return the operand ``x``; raise OperandError with its name if its dtype is not floating-point."""
    if x.dtype.kind != "f":
        raise OperandError(f"{name} is {x.type}", rule=f"{name} must have a floating-point dtype")
    return x


def _register(type: str, records: Callable[[Expr], Expr]) -> None:
    @operator(type, quantized=True)
    def unary(op: OperatorContext, input: Expr) -> Expr:
        if not is_quantized(op, "input"):
            return records(check_float("input", input))
        return _quantized_rectifier(op, input) if type in _RECTIFIERS else look_up(op, input, type)

    unary.__doc__ = f"Return {type}, elementwise."


for _type, _records in (_RECTIFIERS | _SMOOTH).items():
    _register(_type, _records)


def _quantized_rectifier(op: OperatorContext, x: Expr) -> Expr:
    """Apply a rectifier to quantised ``x``, and convert it to the scale of the result."""
    check_dtypes(op, wide=op.definition.type in ("RELU", "RELU6"), input=x)
    scale, zero = scale_and_zero_point(op, "input")
    with np.errstate(over="ignore"):
        factor = np.array(np.float64(scale / scale_and_zero_point(op, "output")[0]))
    return requantize(op, cast(x, INT64) - zero, factor, x, op.definition.type)


@operator("LEAKY_RELU", quantized=True)
def leaky_relu_(op: OperatorContext, input: Expr, *, alpha: float = 0.0) -> Expr:
    """Return ``input`` where it is positive, else ``alpha`` · ``input``."""
    if not is_quantized(op, "input"):
        return leaky_relu(check_float("input", input), alpha)
    check_dtypes(op, wide=True, input=input)
    if alpha < 0:
        raise OperandError(f"alpha={alpha}", rule="alpha of a quantised operator must not be negative")
    number = cast(input, INT64) - scale_and_zero_point(op, "input")[1]
    return _piecewise(op, input, number, number, np.float32(alpha))


@operator("PRELU", quantized=True)
def prelu(op: OperatorContext, input: Expr, alpha: Expr) -> Expr:
    """Return ``input`` where it is positive, else ``alpha`` · ``input``; ``alpha`` is broadcast.

    If ``input`` is int16, ``alpha`` must be int8.
    """
    if not is_quantized(op, "input"):
        with_one_dtype(input=check_float("input", input), alpha=alpha)
        return where(input >= 0, input, input * alpha)
    check_dtypes(op, wide=True, input=input)
    with_dtype(INT8 if input.dtype == np.int16 else input.dtype, alpha=alpha)
    number, (slope, slope_zero) = (
        cast(input, INT64) - scale_and_zero_point(op, "input")[1],
        scale_and_zero_point(op, "alpha"),
    )
    return _piecewise(op, input, number, number * (cast(alpha, INT64) - slope_zero), slope)


def _piecewise(op: OperatorContext, x: Expr, above: Expr, below: Expr, slope: np.float32) -> Expr:
    """Return ``above`` where it is not negative, else ``below`` · ``slope``, in the scale of the result."""
    scale, (own_scale, own_zero) = scale_and_zero_point(op, "input")[0], scale_and_zero_point(op, "output")
    with np.errstate(over="ignore"):
        factors = scale / own_scale, scale * slope / own_scale
    return saturated_cast(where(above >= 0, rescale(above, factors[0]), rescale(below, factors[1])) + own_zero, x.dtype)


@operator("GELU", quantized=True)
def gelu_(op: OperatorContext, input: Expr, *, approximate: bool = False) -> Expr:
    """Return x · Φ(x), where Φ is the normal distribution function; ``approximate`` selects a tanh formula for Φ."""
    if is_quantized(op, "input"):
        return look_up(op, input, "GELU by tanh" if approximate else "GELU")
    return gelu(check_float("input", input), approximate)


@operator("SOFTMAX", quantized=True)
def softmax_(op: OperatorContext, input: Expr, *, beta: float = 1.0) -> Expr:
    """Return the softmax of ``beta`` · ``input`` along the last axis."""
    if not is_quantized(op, "input"):
        return softmax(check_float("input", input) if beta == 1 else check_float("input", input) * beta, -1)
    if input.dtype.name == "int16":
        return _softmax_of_16_bits(op, input, beta)
    check_dtypes(op, input=input)
    if not np.isfinite(beta):
        raise OperandError(f"beta={beta}", rule="beta must be a finite number")
    minimum = int(np.iinfo(input.dtype).min)
    check_result(op, 256, minimum)
    # The zero point cancels in differences.
    probabilities = softmax(without_zero_point(input, 0) * (float(scale_and_zero_point(op, "input")[0]) * beta), -1)
    return saturated_cast(floor(probabilities * 256 + 0.5) + minimum, input.dtype)


def _softmax_of_16_bits(op: OperatorContext, x: Expr, beta: float) -> Expr:
    """Return the softmax of 16-bit ``x`` in steps of 1/32768.

    Exponentials and the reciprocal of their sum are interpolated between table elements.
    """
    check_dtypes(op, wide=True, input=x)
    check_result(op, 32768, 0)
    if x.shape[-1] > _MAX_LENGTH:
        raise OperandError(
            f"input is {x.type}",
            rule=f"the last axis must have at most {_MAX_LENGTH} elements, so that their sum fits in 31 bits",
        )
    shift, number = function("right_shift"), cast(x, INT64)
    steps = rescale(
        number - largest(number, -1, keepdims=True), float(scale_and_zero_point(op, "input")[0]) * beta / (10 / 65535)
    )
    position = clip(steps + 32767, -32768, 32767)
    exponentials = cast(interpolate(interpolation_table(np.exp, 10 / 65535, 32767, 2 / 65535, 0), position), INT64)
    total = sum(exponentials, -1, keepdims=True)
    # number of leading zeros of the total in 31 bits
    room = 31 - sum(cast(total >= tensor(np.int64(1) << np.arange(31)), INT64), -1, keepdims=True)
    rest = shift(function("left_shift")(total, room) - (1 << 30) + (1 << 13), 14) - 32768
    table = interpolation_table(lambda value: 1 / (1 + value), 1 / 65535, -32768, 2 / 65535, 0)
    reciprocal = cast(interpolate(table, clip(rest, -32768, 32767)), INT64)
    half = function("left_shift")(tensor(np.int64(1)), 29 - room)
    return cast(clip(shift(exponentials * reciprocal + half, 30 - room), 0, 32767), x.dtype)


@operator("LOG_SOFTMAX", quantized=True)
def log_softmax_(op: OperatorContext, input: Expr) -> Expr:
    """Return the logarithm of the softmax along the last axis.

    Quantised results have steps of 1/16, down to −255/16, and are exact before rounding. If a result is half-way
    between two steps, the interpreter's 32-bit arithmetic may round to the other step.
    """
    if not is_quantized(op, "input"):
        return log_softmax(check_float("input", input), -1)
    check_dtypes(op, input=input)
    maximum = int(np.iinfo(input.dtype).max)
    check_result(op, 16, maximum)
    # The zero point cancels in differences.
    steps = log_softmax(without_zero_point(input, 0) * float(scale_and_zero_point(op, "input")[0]), -1) * 16
    return saturated_cast(trunc(steps - 0.5) + maximum, input.dtype)
