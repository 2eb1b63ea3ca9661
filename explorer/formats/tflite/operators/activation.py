"""Activations: operators of their own, and those that the converter has merged into the operator before them.

A merged activation is recorded as an operation of its own, since plans fuse it again where that is faster, and a reader
sees what is computed. Quantised rectifiers multiply, and round as products do; the smooth functions of quantised
numbers are tables.
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
    check_result,
    exact,
    is_quantized,
    narrowed,
    of_bytes,
    requantized,
    rescaled,
    single,
    with_dtype,
)
from explorer.formats.tflite.operators.quantized_tables import between, lines, looked_up
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
_MERGED: dict[str, Callable[[Expr], Expr]] = {"NONE": lambda x: x, "TANH": tanh, **_RECTIFIERS}
_LONGEST = 1 << 16
"""most elements of a softmax of 16 bits"""


def activated(y: Expr, activation: Activation) -> Expr:
    """Return a result after the activation that is merged into its operator, as an operation of its own."""
    return _MERGED[activation](y)


def real(name: str, x: Expr) -> Expr:
    """Return an operand; raises OperandError where it is not of real numbers."""
    if x.dtype.kind != "f":
        raise OperandError(f"{name} is {x.type}", rule=f"{name} must be of real numbers")
    return x


def _enter(type: str, records: Callable[[Expr], Expr]) -> None:
    @operator(type, quantized=True)
    def unary(op: OperatorContext, input: Expr) -> Expr:
        if not is_quantized(op, "input"):
            return records(real("input", input))
        return _rectified(op, input) if type in _RECTIFIERS else looked_up(op, input, type)

    unary.__doc__ = f"{type}, element by element."


for _type, _records in (_RECTIFIERS | _SMOOTH).items():
    _enter(_type, _records)


def _rectified(op: OperatorContext, x: Expr) -> Expr:
    """Return a rectifier's results, which the scale of the result makes of them."""
    of_bytes(op, wide=op.definition.type in ("RELU", "RELU6"), input=x)
    scale, zero = single(op, "input")
    with np.errstate(over="ignore"):
        factor = np.array(np.float64(scale / single(op, "output")[0]))
    return requantized(op, cast(x, INT64) - zero, factor, x, op.definition.type)


@operator("LEAKY_RELU", quantized=True)
def leaky_relu_(op: OperatorContext, input: Expr, *, alpha: float = 0.0) -> Expr:
    """x if positive, else alpha · x."""
    if not is_quantized(op, "input"):
        return leaky_relu(real("input", input), alpha)
    of_bytes(op, wide=True, input=input)
    if alpha < 0:
        raise OperandError(f"alpha={alpha}", rule="quantised, alpha must not be negative")
    number = cast(input, INT64) - single(op, "input")[1]
    return _two_sided(op, input, number, number, np.float32(alpha))


@operator("PRELU", quantized=True)
def prelu(op: OperatorContext, input: Expr, alpha: Expr) -> Expr:
    """x if positive, else alpha · x, where alpha is broadcast to x; of an input of int16 alpha is of int8."""
    if not is_quantized(op, "input"):
        with_one_dtype(input=real("input", input), alpha=alpha)
        return where(input >= 0, input, input * alpha)
    of_bytes(op, wide=True, input=input)
    with_dtype(INT8 if input.dtype == np.int16 else input.dtype, alpha=alpha)
    number, (slope, slope_zero) = cast(input, INT64) - single(op, "input")[1], single(op, "alpha")
    return _two_sided(op, input, number, number * (cast(alpha, INT64) - slope_zero), slope)


def _two_sided(op: OperatorContext, x: Expr, above: Expr, below: Expr, slope: np.float32) -> Expr:
    """Return quantised numbers where they are positive, else others times a slope, each by its own multiplier."""
    scale, (own_scale, own_zero) = single(op, "input")[0], single(op, "output")
    with np.errstate(over="ignore"):
        factors = scale / own_scale, scale * slope / own_scale
    return narrowed(where(above >= 0, rescaled(above, factors[0]), rescaled(below, factors[1])) + own_zero, x.dtype)


@operator("GELU", quantized=True)
def gelu_(op: OperatorContext, input: Expr, *, approximate: bool = False) -> Expr:
    """x · Φ(x), or its approximation by tanh."""
    if is_quantized(op, "input"):
        return looked_up(op, input, "GELU by tanh" if approximate else "GELU")
    return gelu(real("input", input), approximate)


@operator("SOFTMAX", quantized=True)
def softmax_(op: OperatorContext, input: Expr, *, beta: float = 1.0) -> Expr:
    """Softmax of beta · x along the last axis."""
    if not is_quantized(op, "input"):
        return softmax(real("input", input) if beta == 1 else real("input", input) * beta, -1)
    if input.dtype.name == "int16":
        return _softmax_of_16_bits(op, input, beta)
    of_bytes(op, input=input)
    if not np.isfinite(beta):
        raise OperandError(f"beta={beta}", rule="beta must be a finite number")
    least = int(np.iinfo(input.dtype).min)
    check_result(op, 256, least)
    # the zero point takes part in no difference
    shares = softmax(exact(input, 0) * (float(single(op, "input")[0]) * beta), -1)
    return narrowed(floor(shares * 256 + 0.5) + least, input.dtype)


def _softmax_of_16_bits(op: OperatorContext, x: Expr, beta: float) -> Expr:
    """Return the softmax in steps of 1/32768.

    Exponentials, and the reciprocal of their sum, are on lines between the elements of tables.
    """
    of_bytes(op, wide=True, input=x)
    check_result(op, 32768, 0)
    if x.shape[-1] > _LONGEST:
        raise OperandError(
            f"input is {x.type}",
            rule=f"the last axis must have at most {_LONGEST} elements, whose sum has room in 31 bits",
        )
    shift, number = function("right_shift"), cast(x, INT64)
    steps = rescaled(number - largest(number, -1, keepdims=True), float(single(op, "input")[0]) * beta / (10 / 65535))
    position = clip(steps + 32767, -32768, 32767)
    exponentials = cast(between(lines(np.exp, 10 / 65535, 32767, 2 / 65535, 0), position), INT64)
    total = sum(exponentials, -1, keepdims=True)
    # the bits of 31 above those of the total
    room = 31 - sum(cast(total >= tensor(np.int64(1) << np.arange(31)), INT64), -1, keepdims=True)
    rest = shift(function("left_shift")(total, room) - (1 << 30) + (1 << 13), 14) - 32768
    table = lines(lambda value: 1 / (1 + value), 1 / 65535, -32768, 2 / 65535, 0)
    reciprocal = cast(between(table, clip(rest, -32768, 32767)), INT64)
    half = function("left_shift")(tensor(np.int64(1)), 29 - room)
    return cast(clip(shift(exponentials * reciprocal + half, 30 - room), 0, 32767), x.dtype)


@operator("LOG_SOFTMAX", quantized=True)
def log_softmax_(op: OperatorContext, input: Expr) -> Expr:
    """Logarithm of softmax along the last axis; of quantised numbers in steps of 1/16 down to −255/16.

    These are exact, and then rounded: where one is half-way between two steps, the interpreter's arithmetic of 32 bits
    may take the other.
    """
    if not is_quantized(op, "input"):
        return log_softmax(real("input", input), -1)
    of_bytes(op, input=input)
    most = int(np.iinfo(input.dtype).max)
    check_result(op, 16, most)
    # the zero point takes part in no difference
    steps = log_softmax(exact(input, 0) * float(single(op, "input")[0]), -1) * 16
    return narrowed(trunc(steps - 0.5) + most, input.dtype)
