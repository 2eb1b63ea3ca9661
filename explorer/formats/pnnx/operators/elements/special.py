"""Special functions by formulas of their own, computed in double precision and rounded to the operand's dtype.

In float64 lgamma and digamma have an absolute error of about 10⁻¹⁴ near their zeros, the others a relative one of a few
10⁻¹⁶, which the exponential of large arguments makes larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.formats.pnnx.operators.base.special_tables import CENTRE, ENDS, HARMONIC, LARGE, SMALL, STIRLING, TAIL
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import real
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, exp, log, sin, sqrt, tan

_DOUBLE = np.dtype(np.float64)
_SHIFT = 8
"""from here on few terms of the series for large arguments are exact; smaller ones are shifted by as much"""


def _enter(name: str, formula: Callable[[Expr], Expr], *types: str) -> None:
    @file_operator(*types, f"aten::{name}", operands=Count(1, 1))
    def special(op: OperatorContext) -> Expr:
        x = real(op.x)
        return cast(formula(cast(x, _DOUBLE)), x.dtype)

    special.__doc__ = formula.__doc__


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    result: Expr = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result = (result + coefficient) * x
    return result + coefficients[0]


def _erfc(x: Expr) -> Expr:
    """1 − erf(x), as exact where it is small."""
    # beyond 28 it is 0 in double precision
    size: Expr = function("minimum")(absolute(x), 28.0)
    # the square of the first 24 bits is exact, and so is the power of it
    front = cast(cast(size, np.dtype(np.float32)), _DOUBLE)
    power = exp(-front * front) * exp((front - size) * (front + size))
    tail = power * _polynomial((size - 3.75) / (size + 3.75), TAIL) / (1 + 2 * size)
    return where(x < 0, 2 - tail, tail)


def _normal(x: Expr) -> Expr:
    """The share of a normal distribution below x."""
    return _erfc(x * -math.sqrt(0.5)) / 2


def _erfinv(x: Expr) -> Expr:
    """The number whose erf is x: ±∞ at ±1, NaN beyond."""
    w = -log((1 - x) * (1 + x))
    minimum = function("minimum")
    centre = _polynomial(minimum(w, 6.25) / 3.125 - 1, CENTRE)
    root = function("maximum")(minimum(sqrt(w), 6.25), 2.5)
    y = x * where(w < 6.25, centre, _polynomial((root - 4.375) / 1.875, ENDS))
    return where(absolute(x) == 1, x * math.inf, y)


def _bessel(x: Expr) -> Expr:
    """The modified Bessel function of the first kind, of order 0."""
    size = absolute(x)
    return where(size == math.inf, math.inf, exp(size) * _scaled_bessel(x))


def _scaled_bessel(x: Expr) -> Expr:
    """exp(−|x|) times the modified Bessel function of the first kind, of order 0."""
    size = absolute(x)
    large: Expr = function("maximum")(size, 8.0)
    small = _polynomial(function("minimum")(size, 8.0) / 4 - 1, SMALL)
    return where(size < 8, small, _polynomial(16 / large - 1, LARGE) / sqrt(large))


def _shifted(y: Expr) -> Expr:
    return where(y < _SHIFT, y + _SHIFT, y)


def _lgamma(x: Expr) -> Expr:
    """log |Γ(x)|, ∞ at 0 and at whole numbers below."""
    # reflected: below ½ by Γ(x) · Γ(1 − x) = π / sin(πx)
    y = where(x < 0.5, 1 - x, x)
    s, near = _shifted(y), where(y < _SHIFT, y, 0)
    product = near
    for step in range(1, _SHIFT):
        product = product * (near + step)
    series = _polynomial(1 / (s * s), STIRLING) / s
    gamma = (s - 0.5) * (log(s) - 1) + (series + (math.log(2 * math.pi) - 1) / 2)
    gamma = gamma - log(where(y < _SHIFT, product, 1))
    part = x - function("round_half_even")(x)
    reflected = math.log(math.pi) - log(absolute(sin(part * math.pi))) - gamma
    return where(absolute(x) == math.inf, math.inf, where(x < 0.5, reflected, gamma))


def _digamma(x: Expr) -> Expr:
    """The derivative of log Γ: NaN at whole numbers below 0, −∞ at 0 and ∞ at −0."""
    y = where(x < 0.5, 1 - x, x)
    s, near = _shifted(y), where(y < _SHIFT, y, 1)
    inverse = 1 / (s * s)
    psi = log(s) - 0.5 / s - inverse * _polynomial(inverse, HARMONIC)
    terms = 1 / near
    for step in range(1, _SHIFT):
        terms = terms + 1 / (near + step)
    psi = psi - where(y < _SHIFT, terms, 0)
    part = x - function("round_half_even")(x)
    reflected = psi - math.pi / tan(part * math.pi)
    return where(
        x == 0, function("copysign")(math.inf, -x), where((x < 0) & (part == 0), np.nan, where(x < 0.5, reflected, psi))
    )


_enter("erfc", _erfc, "torch.erfc", "Tensor.erfc", "torch.special.erfc")
_enter("special_ndtr", _normal, "torch.special.ndtr")
_enter("erfinv", _erfinv, "torch.erfinv", "Tensor.erfinv", "torch.special.erfinv")
_enter("i0", _bessel, "torch.i0", "Tensor.i0", "torch.special.i0")
_enter("special_i0e", _scaled_bessel, "torch.special.i0e")
_enter("lgamma", _lgamma, "torch.lgamma", "Tensor.lgamma", "torch.special.gammaln")
_enter("digamma", _digamma, "torch.digamma", "Tensor.digamma", "torch.special.digamma")
