"""Activations and what is computed element by element: modules and functions of the same meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.formats.pnnx.operators.table import file_operator
from explorer.net.context import OperatorContext
from explorer.ops.activation import gelu, hardsigmoid, hardswish, leaky_relu, relu6, silu
from explorer.ops.arithmetic import where
from explorer.ops.elementwise import relu, sigmoid, softplus, tanh
from explorer.ops.loss import log_softmax, softmax


def _enter(function: Callable[[Any], Expr], *types: str) -> None:
    @file_operator(*types)
    def activation(op: OperatorContext) -> Expr:
        return function(op.x)

    activation.__doc__ = function.__doc__


_enter(relu, "nn.ReLU", "F.relu", "torch.relu")
_enter(relu6, "nn.ReLU6", "F.relu6")
_enter(sigmoid, "nn.Sigmoid", "F.sigmoid", "torch.sigmoid")
_enter(tanh, "nn.Tanh", "F.tanh", "torch.tanh")
_enter(silu, "nn.SiLU", "F.silu")
_enter(hardsigmoid, "nn.Hardsigmoid", "F.hardsigmoid")
_enter(hardswish, "nn.Hardswish", "F.hardswish")


@file_operator("nn.GELU", "F.gelu")
def gelu_(op: OperatorContext) -> Expr:
    """x · Φ(x), exactly or by the approximation with tanh."""
    form = op.argument("approximate", "none")
    if form not in ("none", "tanh"):
        raise OperandError(f"approximate={form!r}", rule="approximate is none or tanh")
    return gelu(op.x, approximate=form == "tanh")


@file_operator("nn.LeakyReLU", "F.leaky_relu")
def leaky_relu_(op: OperatorContext) -> Expr:
    """x, or a small slope times x below 0."""
    return leaky_relu(op.x, op.number("negative_slope", 0.01))


@file_operator("nn.Softplus", "F.softplus")
def softplus_(op: OperatorContext) -> Expr:
    """log(1 + e^(βx)) / β; x itself where βx is above the threshold."""
    x, beta, threshold = op.x, op.number("beta", 1), op.number("threshold", 20)
    scaled = x if beta == 1 else x * beta
    y = softplus(scaled) if beta == 1 else softplus(scaled) / beta
    return where(scaled > threshold, x, y)


@file_operator("nn.Softmax", "F.softmax", "torch.softmax")
def softmax_(op: OperatorContext) -> Expr:
    """Softmax over one axis."""
    op.only("dtype", None)
    return softmax(op.x, op.integer("dim"))


@file_operator("nn.LogSoftmax", "F.log_softmax", "torch.log_softmax")
def log_softmax_(op: OperatorContext) -> Expr:
    """The logarithm of softmax over one axis."""
    op.only("dtype", None)
    return log_softmax(op.x, op.integer("dim"))
