"""Activations that are written with others: compositions, which planning fuses."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.registry import public
from explorer.core.types.tensor_type import normalize_axis
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, expm1, sigmoid, softplus, tanh
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.activation import clip

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


@public
def elu(x: Any, alpha: float = 1.0) -> Expr:
    """x where it is positive, α · (eˣ − 1) elsewhere."""
    (x,) = as_operands((x,))
    below = expm1(clip(x, None, 0))  # of what is above 0 the exponential could overflow
    return where(x > 0, x, below if alpha == 1 else below * alpha)


@public
def selu(x: Any, alpha: float = _SELU_ALPHA, scale: float = _SELU_SCALE) -> Expr:
    """Scale · x where x is positive, scale · α · (eˣ − 1) elsewhere."""
    return elu(x, alpha) * scale


@public
def celu(x: Any, alpha: float = 1.0) -> Expr:
    """x where it is positive, α · (e^(x/α) − 1) elsewhere."""
    (x,) = as_operands((x,))
    return where(x > 0, x, expm1(clip(x, None, 0) / alpha) * alpha)


@public
def mish(x: Any) -> Expr:
    """x · tanh(log(1 + eˣ))."""
    (x,) = as_operands((x,))
    y: Expr = x * tanh(softplus(x))
    return y


@public
def softsign(x: Any) -> Expr:
    """x / (1 + |x|)."""
    (x,) = as_operands((x,))
    y: Expr = x / (1 + absolute(x))
    return y


@public
def log_sigmoid(x: Any) -> Expr:
    """log σ(x), without overflow."""
    (x,) = as_operands((x,))
    return -softplus(-x)


@public
def threshold(x: Any, limit: float, value: float) -> Expr:
    """x where it is above the limit, a value elsewhere; NaN stays."""
    (x,) = as_operands((x,))
    return where(x <= limit, value, x)


@public
def softshrink(x: Any, width: float = 0.5) -> Expr:
    """x moved towards 0 by a width, and 0 where it is not farther away than that; NaN stays."""
    (x,) = as_operands((x,))
    return where(absolute(x) <= width, 0, where(x > 0, x - width, x + width))


@public
def hardshrink(x: Any, width: float = 0.5) -> Expr:
    """x where it is farther from 0 than a width, 0 elsewhere; NaN stays."""
    (x,) = as_operands((x,))
    return where(absolute(x) <= width, 0, x)


@public
def tanhshrink(x: Any) -> Expr:
    """x − tanh x."""
    (x,) = as_operands((x,))
    y: Expr = x - tanh(x)
    return y


@public
def prelu(x: Any, slope: Any) -> Expr:
    """x where it is positive, slope · x elsewhere; slope holds one number, or one for each channel (axis 1)."""
    x, slope = as_operands((x, slope))
    if slope.size != 1 and (x.ndim < 2 or slope.shape != (x.shape[1],)):
        raise OperandError(
            f"prelu: given {x.type} with slopes {slope.type}",
            rule="there is one slope, or one for each channel (axis 1)",
        )
    wide = reshape(slope, () if slope.size == 1 else (slope.size, *[1] * (x.ndim - 2)))
    return where(x > 0, x, x * wide)


@public
def glu(x: Any, axis: int = -1) -> Expr:
    """The first half of an axis times the sigmoid of its second half."""
    (x,) = as_operands((x,))
    place = normalize_axis(axis, x.ndim, "glu")
    half, odd = divmod(x.shape[place], 2)
    if odd:
        raise OperandError(f"glu: axis {place} of {x.type}", rule="the axis has two halves of equal size")
    front = [slice(None)] * place
    return part_of(x, (*front, slice(half))) * sigmoid(part_of(x, (*front, slice(half, None))))
