"""Activations, and normalization of an axis to probabilities.

ONNX defines many of them by formulas with attributes (alpha, beta, gamma) whose defaults differ from torch's; each
builder names its attributes and defaults as the standard does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant
from explorer.formats.onnx.operators.base.operator_inputs import axis_of, first
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_given, is_known, number, optional, required
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import maximum, minimum, where
from explorer.ops.elementwise.unary import sigmoid
from explorer.ops.manipulation.reshape import expand_dims
from explorer.ops.nn.activation import celu, clip, elu, gelu, hardsigmoid, hardswish, leaky_relu, mish, selu, softsign
from explorer.ops.nn.softmax import log_softmax, softmax
from explorer.ops.reduction.sorting import argmax


def _normalized(op: OperatorContext, normalize: Callable[..., Expr]) -> Expr:
    x = first(op)
    if not op.flag("flattens", False):
        return normalize(x, axis_of(op, x, -1))
    axis = axis_of(op, x, 1)
    rows = reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return reshape(normalize(rows, -1), x.shape)


@operator("Softmax")
def softmax_(op: OperatorContext) -> Expr:
    """Softmax over an axis; before opset 13 over all axes from there on."""
    return _normalized(op, softmax)


@operator("LogSoftmax")
def log_softmax_(op: OperatorContext) -> Expr:
    """The logarithm of softmax over an axis; before opset 13 over all axes from there on."""
    return _normalized(op, log_softmax)


@operator("Clip")
def clip_(op: OperatorContext) -> Expr:
    """x kept between two numbers, of which each may be absent."""
    x = first(op)
    limits = [optional(op, name) for name in ("min", "max")]
    if all(limit is None or is_known(limit) for limit in limits):
        low, high = (number(op, name) if is_given(op, name) else None for name in ("min", "max"))
        return x if low is None and high is None else cast(clip(x, low, high), x.dtype)
    low, high = limits
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


@operator("LeakyRelu")
def leaky_relu_(op: OperatorContext) -> Expr:
    """x, or alpha · x below 0."""
    return leaky_relu(first(op), op.number("alpha", 0.01))


@operator("PRelu")
def parametric_relu(op: OperatorContext) -> Expr:
    """x, or slope · x below 0; the slope is aligned at the last axes, before opset 7 at the channels."""
    x, slope = first(op), required(op, "slope")
    if op.argument("slopes_of_channels", False) and slope.ndim == 1 and slope.size > 1:
        slope = reshape(slope, (slope.size, *[1] * (x.ndim - 2)))
    return where(x < 0, x * slope, x)


@operator("ThresholdedRelu")
def thresholded_relu(op: OperatorContext) -> Expr:
    """x where it is above alpha, else 0; NaN is above nothing."""
    x = first(op)
    return where(x > op.number("alpha", 1.0), x, 0)


@operator("Elu")
def elu_(op: OperatorContext) -> Expr:
    """x, or alpha · (eˣ − 1) below 0."""
    return elu(first(op), op.number("alpha", 1.0))


@operator("Celu")
def celu_(op: OperatorContext) -> Expr:
    """x, or alpha · (e^(x/alpha) − 1) below 0."""
    return celu(first(op), op.number("alpha", 1.0))


@operator("Selu")
def selu_(op: OperatorContext) -> Expr:
    """gamma times the elu."""
    # the standard's defaults: the float32 numbers nearest to the constants of the paper
    return selu(first(op), op.number("alpha", 1.67326319217681884765625), op.number("gamma", 1.05070102214813232421875))


@operator("Gelu")
def gelu_(op: OperatorContext) -> Expr:
    """x · Φ(x), exactly or by the approximation with tanh."""
    return gelu(first(op), approximate=op.word("approximate", "none", ("none", "tanh")) == "tanh")


@operator("HardSigmoid")
def hard_sigmoid(op: OperatorContext) -> Expr:
    """alpha · x + beta kept between 0 and 1."""
    x, alpha, beta = first(op), op.number("alpha", 0.2), op.number("beta", 0.5)
    # torch exports its hard sigmoid so; its 1/6 is stored in single precision
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return hardsigmoid(x)
    return clip(alpha * x + beta, 0, 1)


@operator("HardSwish")
def hard_swish(op: OperatorContext) -> Expr:
    """x times the hard sigmoid of x."""
    return hardswish(first(op))


@operator("Swish")
def swish(op: OperatorContext) -> Expr:
    """x · σ(alpha · x)."""
    x = first(op)
    return x * sigmoid(op.number("alpha", 1.0) * x)


@operator("Mish")
def mish_(op: OperatorContext) -> Expr:
    """x · tanh(log(1 + eˣ))."""
    return mish(first(op))


@operator("Softsign")
def softsign_(op: OperatorContext) -> Expr:
    """x / (1 + |x|)."""
    return softsign(first(op))


@operator("Hardmax")
def hard_max(op: OperatorContext) -> Expr:
    """1 at the first largest element of an axis, 0 elsewhere; before opset 13 of all axes from there on."""

    def chosen(x: Expr, axis: int) -> Expr:
        claim_constant("Hardmax", x.shape[axis])
        places = expand_dims(argmax(x, axis), axis)
        column = (x.shape[axis], *[1] * (x.ndim - 1 - axis % x.ndim))
        return cast(places == np.arange(x.shape[axis]).reshape(column), x.dtype)

    return _normalized(op, chosen)


@operator("Shrink")
def shrink(op: OperatorContext) -> Expr:
    """x moved towards 0 by bias where it is further away than lambd, else 0."""
    x, limit, bias = first(op), op.number("lambd", 0.5), op.number("bias", 0.0)

    def shifted(value: Any) -> Any:
        return cast(value, x.dtype)

    return where(x < -limit, shifted(x + bias), where(x > limit, shifted(x - bias), 0))
