"""Activations.

Most activations exist three times in torch: as a module, in ``torch.nn.functional`` and in ``torch``. A file contains
the variant that the program called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import InPlace, StackLevel, in_dtype
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import real
from explorer.net.operators.signature import Unused
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import relu, sigmoid, softplus, tanh
from explorer.ops.nn.activation import (
    celu,
    elu,
    gelu,
    glu,
    hardsigmoid,
    hardswish,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu6,
    selu,
    silu,
    softsign,
)
from explorer.ops.nn.shrinkage import hardshrink, softshrink, tanhshrink
from explorer.ops.nn.shrinkage import threshold as above_threshold
from explorer.ops.nn.softmax import log_softmax, softmax


def _register(function: Callable[[Any], Expr], *types: str) -> None:
    @file_operator(*types)
    def activation(input: Expr, *, inplace: InPlace) -> Expr:
        return function(real(input) if function in (sigmoid, tanh) else input)

    # The docstring of an operation begins with its signature, but its class has only the description.
    activation.__doc__ = function.__doc__ if inspect.isfunction(function) else type(function).__doc__


_register(relu, "nn.ReLU", "F.relu", "torch.relu")
_register(relu6, "nn.ReLU6", "F.relu6")
_register(sigmoid, "nn.Sigmoid", "F.sigmoid", "torch.sigmoid")
_register(tanh, "nn.Tanh", "F.tanh", "torch.tanh")
_register(silu, "nn.SiLU", "F.silu")
_register(hardsigmoid, "nn.Hardsigmoid", "F.hardsigmoid")
_register(hardswish, "nn.Hardswish", "F.hardswish")
_register(selu, "nn.SELU", "F.selu")
_register(mish, "nn.Mish", "F.mish")
_register(softsign, "nn.Softsign", "F.softsign")
_register(log_sigmoid, "nn.LogSigmoid", "F.logsigmoid")
_register(tanhshrink, "nn.Tanhshrink", "F.tanhshrink")


@file_operator("nn.ELU", "F.elu")
def elu_(input: Expr, *, alpha: float = 1.0, inplace: InPlace) -> Expr:
    """Return x, or alpha · (eˣ − 1) where x is negative."""
    return elu(input, alpha)


@file_operator("nn.CELU", "F.celu")
def celu_(input: Expr, *, alpha: float = 1.0, inplace: InPlace) -> Expr:
    """Return x, or alpha · (exp(x / alpha) − 1) where x is negative."""
    return celu(input, alpha)


@file_operator("nn.Softshrink", "F.softshrink")
def softshrink_(input: Expr, *, lambd: float = 0.5) -> Expr:
    """Return x moved towards 0 by ``lambd``, or 0 between −lambd and lambd."""
    return softshrink(input, lambd)


@file_operator("nn.Hardshrink", "F.hardshrink")
def hardshrink_(input: Expr, *, lambd: float = 0.5) -> Expr:
    """Return x, or 0 between −lambd and lambd."""
    return hardshrink(input, lambd)


@file_operator("nn.LeakyReLU", "F.leaky_relu")
def leaky_relu_(input: Expr, *, negative_slope: float = 0.01, inplace: InPlace) -> Expr:
    """Return x, or negative_slope · x where x is negative."""
    return leaky_relu(input, negative_slope)


@file_operator("nn.Threshold", "F.threshold")
def threshold_(input: Expr, *, threshold: float, value: float, inplace: InPlace) -> Expr:
    """Return x where it is above ``threshold``, and ``value`` elsewhere."""
    return above_threshold(input, threshold, value)


@file_operator("nn.RReLU", "F.rrelu")
def randomized_leaky_relu(
    input: Expr,
    *,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: Literal[False] = False,
    inplace: InPlace,
) -> Expr:
    """Return x, or slope · x where x is negative; the slope is the mean of ``lower`` and ``upper``.

    Random slopes are used only in training.
    """
    return leaky_relu(input, (lower + upper) / 2)


@file_operator("nn.PReLU", "F.prelu")
def parametric_relu(input: Expr, weight: Expr, *, num_parameters: Unused, init: Unused) -> Expr:
    """Return x, or slope · x where x is negative; ``weight`` contains one slope for each channel."""
    return prelu(input, weight)


@file_operator("nn.GLU", "F.glu")
def gated_linear_unit(input: Expr, *, dim: int = -1) -> Expr:
    """Return the first half of the axis ``dim`` times the sigmoid of the second half."""
    return glu(input, dim)


@file_operator("nn.GELU", "F.gelu")
def gelu_(input: Expr, *, approximate: Literal["none", "tanh"] = "none") -> Expr:
    """Return x · Φ(x), exactly or approximated with tanh, where Φ is the normal distribution function."""
    return gelu(input, approximate=approximate == "tanh")


@file_operator("nn.Softplus", "F.softplus")
def softplus_(input: Expr, *, beta: float = 1, threshold: float = 20) -> Expr:
    """Return log(1 + e^(βx)) / β, or x where βx is above ``threshold``."""
    scaled = input if beta == 1 else input * beta
    y = softplus(scaled) if beta == 1 else softplus(scaled) / beta
    # as in torch; at the default threshold of 20, log(1 + eˣ) exceeds x by less than e⁻²⁰ = 2e−9
    return where(scaled > threshold, input, y)


@file_operator("nn.Softmax", "F.softmax", "torch.softmax")
def softmax_(input: Expr, *, dim: int, dtype: str | None = None, _stacklevel: StackLevel) -> Expr:
    """Return the softmax along the axis ``dim``."""
    return softmax(in_dtype(input, dtype), dim)


@file_operator("nn.Softmin", "F.softmin")
def softmin(input: Expr, *, dim: int, dtype: str | None = None, _stacklevel: StackLevel) -> Expr:
    """Return the softmax of −x along the axis ``dim``."""
    return softmax(-in_dtype(input, dtype), dim)


@file_operator("nn.Softmax2d")
def softmax_of_channels(input: Expr) -> Expr:
    """Return the softmax over the channels of each pixel."""
    return softmax(input, -3)


@file_operator("nn.LogSoftmax", "F.log_softmax", "torch.log_softmax")
def log_softmax_(input: Expr, *, dim: int, dtype: str | None = None, _stacklevel: StackLevel) -> Expr:
    """Return the logarithm of the softmax along the axis ``dim``."""
    return log_softmax(in_dtype(input, dtype), dim)
