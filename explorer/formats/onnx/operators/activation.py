"""Activations and softmax-like normalizations, with the attribute names and defaults of the ONNX standard."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.known_inputs import is_known, value_of
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import maximum, minimum, where
from explorer.ops.elementwise.unary import sigmoid
from explorer.ops.manipulation.reshape import expand_dims
from explorer.ops.nn.activation import celu, clip, elu, gelu, hardsigmoid, hardswish, leaky_relu, mish, selu, softsign
from explorer.ops.nn.softmax import log_softmax, softmax
from explorer.ops.reduction.sorting import argmax


def _normalized(x: Expr, axis: int | None, flattens: int, type: str, normalize: Callable[..., Expr]) -> Expr:
    axis = normalize_axis((1 if flattens else -1) if axis is None else axis, x.ndim, type)
    if not flattens:
        return normalize(x, axis)
    rows = reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return reshape(normalize(rows, -1), x.shape)


def _register_normalization(type: str, normalize: Callable[..., Expr], doc: str) -> None:
    @operator(type)
    def normalization(input: Expr, *, axis: int | None = None, flattens: bool | int = False) -> Expr:
        return _normalized(input, axis, flattens, type, normalize)

    normalization.__doc__ = doc


def _hard_max(x: Expr, axis: int) -> Expr:
    claim_constant("Hardmax", x.shape[axis])
    indices = expand_dims(argmax(x, axis), axis)
    column = (x.shape[axis], *[1] * (x.ndim - 1 - axis % x.ndim))
    return cast(indices == np.arange(x.shape[axis]).reshape(column), x.dtype)


# Before opset 13, these types flatten the axes from `axis` on; the reader then sets `flattens`.
_register_normalization("Softmax", softmax, "Return the softmax over an axis.")
_register_normalization("LogSoftmax", log_softmax, "Return the logarithm of softmax over an axis.")
_register_normalization("Hardmax", _hard_max, "Return 1 at the first largest element of an axis, 0 elsewhere.")


@operator("Clip")
def clip_(input: Expr, min: Expr | None = None, max: Expr | None = None) -> Expr:
    """Limit ``input`` to the range from ``min`` to ``max``; both limits are optional."""
    for name, limit in (("min", min), ("max", max)):
        if limit is not None and limit.size != 1:
            raise OperandError(f"{name} has shape {limit.shape}", rule=f"Clip: {name} must be one number")
    if all(limit is None or is_known(limit) for limit in (min, max)):
        low, high = (None if limit is None else value_of(limit).item() for limit in (min, max))
        return input if low is None and high is None else cast(clip(input, low, high), input.dtype)
    x = input if min is None else maximum(input, min)
    return x if max is None else minimum(x, max)


@operator("LeakyRelu")
def leaky_relu_(X: Expr, *, alpha: float = 0.01) -> Expr:
    """Return X, or alpha · X where X < 0."""
    return leaky_relu(X, alpha)


@operator("PRelu")
def parametric_relu(X: Expr, slope: Expr, *, slopes_of_channels: bool | int = False) -> Expr:
    """Return X, or slope · X where X < 0.

    Slopes broadcast to the last axes or, before opset 7, to the channels.
    """
    if slopes_of_channels and slope.ndim == 1 and slope.size > 1:
        slope = reshape(slope, (slope.size, *[1] * (X.ndim - 2)))
    return where(X < 0, X * slope, X)


@operator("ThresholdedRelu")
def thresholded_relu(X: Expr, *, alpha: float = 1.0) -> Expr:
    """Return X where X > alpha, and 0 elsewhere, including for NaN."""
    return where(X > alpha, X, 0)


@operator("Elu")
def elu_(X: Expr, *, alpha: float = 1.0) -> Expr:
    """Return X, or alpha · (eˣ − 1) where X < 0."""
    return elu(X, alpha)


@operator("Celu")
def celu_(X: Expr, *, alpha: float = 1.0) -> Expr:
    """Return X, or alpha · (e^(X/alpha) − 1) where X < 0."""
    return celu(X, alpha)


@operator("Selu")
def selu_(X: Expr, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Expr:
    """Return gamma · Elu(X); the defaults are the paper's constants rounded to float32."""
    return selu(X, alpha, gamma)


@operator("Gelu")
def gelu_(X: Expr, *, approximate: Literal["none", "tanh"] = "none") -> Expr:
    """Return X · Φ(X), exact or approximated with tanh; Φ is the cumulative normal distribution."""
    return gelu(X, approximate=approximate == "tanh")


@operator("HardSigmoid")
def hard_sigmoid(X: Expr, *, alpha: float = 0.2, beta: float = 0.5) -> Expr:
    """Return alpha · X + beta limited to [0, 1]."""
    # torch exports its hard sigmoid with 1/6 in single precision
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return hardsigmoid(X)
    return clip(alpha * X + beta, 0, 1)


@operator("HardSwish")
def hard_swish(X: Expr) -> Expr:
    """Return X times the hard sigmoid of X."""
    return hardswish(X)


@operator("Swish")
def swish(X: Expr, *, alpha: float = 1.0) -> Expr:
    """Return X · σ(alpha · X)."""
    return X * sigmoid(alpha * X)


@operator("Mish")
def mish_(X: Expr) -> Expr:
    """Return X · tanh(log(1 + eˣ))."""
    return mish(X)


@operator("Softsign")
def softsign_(input: Expr) -> Expr:
    """Return x / (1 + |x|)."""
    return softsign(input)


@operator("Shrink")
def shrink(input: Expr, *, lambd: float = 0.5, bias: float = 0.0) -> Expr:
    """Return the input moved towards 0 by ``bias`` where its magnitude exceeds ``lambd``, and 0 elsewhere."""
    above, below = (cast(shifted, input.dtype) for shifted in (input - bias, input + bias))
    return where(input < -lambd, below, where(input > lambd, above, 0))
