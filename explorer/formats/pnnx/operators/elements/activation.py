"""Activations and what is computed element by element: modules and functions of the same meaning.

torch has most of them three times, as a module, in torch.nn.functional and as a function of torch; PNNX writes what the
program called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.creation import dtype_of
from explorer.formats.pnnx.operators.elements.expression import real
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
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
from explorer.ops.nn.shrinkage import hardshrink, softshrink, tanhshrink, threshold
from explorer.ops.nn.softmax import log_softmax, softmax

_IN_PLACE = ("inplace",)
"""an argument without influence: pnnx writes a file without aliases, in which an operand is never overwritten"""


def _enter(function: Callable[[Any], Expr], *types: str) -> None:
    @file_operator(*types, ignored=_IN_PLACE)
    def activation(op: OperatorContext) -> Expr:
        return function(real(op.x) if function in (sigmoid, tanh) else op.x)

    activation.__doc__ = function.__doc__


_enter(relu, "nn.ReLU", "F.relu", "torch.relu")
_enter(relu6, "nn.ReLU6", "F.relu6")
_enter(sigmoid, "nn.Sigmoid", "F.sigmoid", "torch.sigmoid")
_enter(tanh, "nn.Tanh", "F.tanh", "torch.tanh")
_enter(silu, "nn.SiLU", "F.silu")
_enter(hardsigmoid, "nn.Hardsigmoid", "F.hardsigmoid")
_enter(hardswish, "nn.Hardswish", "F.hardswish")
_enter(selu, "nn.SELU", "F.selu")
_enter(mish, "nn.Mish", "F.mish")
_enter(softsign, "nn.Softsign", "F.softsign")
_enter(log_sigmoid, "nn.LogSigmoid", "F.logsigmoid")
_enter(tanhshrink, "nn.Tanhshrink", "F.tanhshrink")


def _enter_with_number(function: Callable[[Any, float], Expr], name: str, default: float, *types: str) -> None:
    @file_operator(*types, ignored=_IN_PLACE)
    def activation(op: OperatorContext) -> Expr:
        return function(op.x, op.number(name, default))

    activation.__doc__ = function.__doc__


_enter_with_number(elu, "alpha", 1.0, "nn.ELU", "F.elu")
_enter_with_number(celu, "alpha", 1.0, "nn.CELU", "F.celu")
_enter_with_number(softshrink, "lambd", 0.5, "nn.Softshrink", "F.softshrink")
_enter_with_number(hardshrink, "lambd", 0.5, "nn.Hardshrink", "F.hardshrink")
_enter_with_number(leaky_relu, "negative_slope", 0.01, "nn.LeakyReLU", "F.leaky_relu")


_CALLER = ("_stacklevel",)
"""an argument that says whom torch warns"""


@file_operator("nn.Threshold", "F.threshold", ignored=_IN_PLACE)
def threshold_(op: OperatorContext) -> Expr:
    """x where it is above the threshold, a value elsewhere."""
    return threshold(op.x, op.number("threshold"), op.number("value"))


@file_operator("nn.RReLU", "F.rrelu", ignored=_IN_PLACE)
def randomized_leaky_relu(op: OperatorContext) -> Expr:
    """x, or below 0 the mean of the slopes that training draws from times x."""
    op.only("training", False)
    return leaky_relu(op.x, (op.number("lower", 1 / 8) + op.number("upper", 1 / 3)) / 2)


@file_operator("nn.PReLU", "F.prelu", ignored=("num_parameters", "init"))
def parametric_relu(op: OperatorContext) -> Expr:
    """x, or a slope of its own for each channel times x below 0."""
    return prelu(op.x, op.weight("weight") if op.definition.type == "nn.PReLU" else op.tensor(1, "weight"))


@file_operator("nn.GLU", "F.glu")
def gated_linear_unit(op: OperatorContext) -> Expr:
    """Half of an axis times the sigmoid of its other half."""
    return glu(op.x, op.integer("dim", -1))


@file_operator("nn.GELU", "F.gelu")
def gelu_(op: OperatorContext) -> Expr:
    """x · Φ(x), exactly or by the approximation with tanh."""
    form = op.argument("approximate", "none")
    if form not in ("none", "tanh"):
        raise OperandError(f"approximate={form!r}", rule="approximate must be none or tanh")
    return gelu(op.x, approximate=form == "tanh")


@file_operator("nn.Softplus", "F.softplus")
def softplus_(op: OperatorContext) -> Expr:
    """log(1 + e^(βx)) / β; x itself where βx is above the threshold."""
    x, beta, threshold = op.x, op.number("beta", 1), op.number("threshold", 20)
    scaled = x if beta == 1 else x * beta
    y = softplus(scaled) if beta == 1 else softplus(scaled) / beta
    # as torch: at the default threshold of 20, log(1 + eˣ) is larger than x by less than e⁻²⁰ = 2e−9
    return where(scaled > threshold, x, y)


def _converted(op: OperatorContext) -> Expr:
    """Return the operand in the dtype that is asked for."""
    return cast(op.x, dtype_of(op, op.x.dtype))


@file_operator("nn.Softmax", "F.softmax", "torch.softmax", ignored=_CALLER)
def softmax_(op: OperatorContext) -> Expr:
    """Softmax over one axis."""
    return softmax(_converted(op), op.integer("dim"))


@file_operator("nn.Softmin", "F.softmin", ignored=_CALLER)
def softmin(op: OperatorContext) -> Expr:
    """Softmax of −x over one axis."""
    return softmax(-_converted(op), op.integer("dim"))


@file_operator("nn.Softmax2d")
def softmax_of_channels(op: OperatorContext) -> Expr:
    """Softmax over the channels of each pixel."""
    return softmax(op.x, -3)


@file_operator("nn.LogSoftmax", "F.log_softmax", "torch.log_softmax", ignored=_CALLER)
def log_softmax_(op: OperatorContext) -> Expr:
    """The logarithm of softmax over one axis."""
    return log_softmax(_converted(op), op.integer("dim"))
