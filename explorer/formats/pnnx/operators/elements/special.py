"""Special functions, computed in double precision with explorer's own formulas and rounded to the operand's dtype.

In float64, lgamma and digamma have an absolute error of about 10⁻¹⁴ near their zeros. The other functions have a
relative error of a few 10⁻¹⁶, and for large arguments the error grows with the exponential of the argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import real
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, exp, log, sin, sqrt, tan

_DOUBLE = np.dtype(np.float64)
_SHIFT = 8
"""lower limit of the argument for the short asymptotic series; smaller arguments are shifted by this amount"""


def _register(name: str, formula: Callable[[Expr], Expr], *types: str) -> None:
    @file_operator(*types, f"aten::{name}")
    def special(input: Expr) -> Expr:
        x = real(input)
        return cast(formula(cast(x, _DOUBLE)), x.dtype)

    special.__doc__ = formula.__doc__


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    result: Expr = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result = (result + coefficient) * x
    return result + coefficients[0]


def _erfc(x: Expr) -> Expr:
    """Return 1 − erf(x), without cancellation for large x."""
    # above 28, the result is 0 in double precision
    size: Expr = function("minimum")(absolute(x), 28.0)
    # the square of the upper 24 bits is exact, so its exponential is accurate
    front = cast(cast(size, np.dtype(np.float32)), _DOUBLE)
    power = exp(-front * front) * exp((front - size) * (front + size))
    tail = power * _polynomial((size - 3.75) / (size + 3.75), TAIL) / (1 + 2 * size)
    return where(x < 0, 2 - tail, tail)


def _normal(x: Expr) -> Expr:
    """Return the cumulative distribution function of the standard normal distribution."""
    return _erfc(x * -math.sqrt(0.5)) / 2


def _erfinv(x: Expr) -> Expr:
    """Return the inverse of erf: ±∞ at ±1, and NaN outside −1 … 1."""
    w = -log((1 - x) * (1 + x))
    minimum = function("minimum")
    centre = _polynomial(minimum(w, 6.25) / 3.125 - 1, CENTRE)
    root = function("maximum")(minimum(sqrt(w), 6.25), 2.5)
    y = x * where(w < 6.25, centre, _polynomial((root - 4.375) / 1.875, ENDS))
    return where(absolute(x) == 1, x * math.inf, y)


def _bessel(x: Expr) -> Expr:
    """Return the modified Bessel function of the first kind of order 0."""
    size = absolute(x)
    return where(size == math.inf, math.inf, exp(size) * _scaled_bessel(x))


def _scaled_bessel(x: Expr) -> Expr:
    """Return exp(−|x|) times the modified Bessel function of the first kind of order 0."""
    size = absolute(x)
    large: Expr = function("maximum")(size, 8.0)
    small = _polynomial(function("minimum")(size, 8.0) / 4 - 1, SMALL)
    return where(size < 8, small, _polynomial(16 / large - 1, LARGE) / sqrt(large))


def _shifted(y: Expr) -> Expr:
    return where(y < _SHIFT, y + _SHIFT, y)


def _lgamma(x: Expr) -> Expr:
    """Return log |Γ(x)|, which is ∞ at 0 and at negative integers."""
    # reflected below ½: Γ(x) · Γ(1 − x) = π / sin(πx)
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
    """Return the derivative of log Γ: NaN at negative integers, −∞ at 0 and ∞ at −0."""
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


_register("erfc", _erfc, "torch.erfc", "Tensor.erfc", "torch.special.erfc")
_register("special_ndtr", _normal, "torch.special.ndtr")
_register("erfinv", _erfinv, "torch.erfinv", "Tensor.erfinv", "torch.special.erfinv")
_register("i0", _bessel, "torch.i0", "Tensor.i0", "torch.special.i0")
_register("special_i0e", _scaled_bessel, "torch.special.i0e")
_register("lgamma", _lgamma, "torch.lgamma", "Tensor.lgamma", "torch.special.gammaln")
_register("digamma", _digamma, "torch.digamma", "Tensor.digamma", "torch.special.digamma")


TAIL = (
    1.2375126308378275, -0.14024059858554525, 0.0035854154854790257, 0.08227673848999506, -0.10880393014244462,
    0.09230432116428125, -0.05869339857664934, 0.02836227737211114, -0.009746579683265262, 0.0017556261651970652,
    0.000293714378044958, -0.00029015535246077655, 5.164652974177416e-05, 2.2387565714911816e-05,
    -1.1438048033346894e-05, -9.792625707303523e-07, 1.7419821586224816e-06, -5.084465378687302e-08,
    -2.4857126248016745e-07, 1.879082322370048e-08, 3.197926671666804e-08, -1.9551358868985616e-09,
    -2.623107347133476e-09,
)  # fmt: skip
"""(1 + 2x) · exp(x²) · erfc(x) for x ≥ 0, with u = (x − 3.75) / (x + 3.75)"""
CENTRE = (
    1.6536545626831027, 0.7504943200799635, -0.05892256710377776, -0.02260444745344275, 0.01780836181828642,
    -0.0041373143776338795, -0.0012716922681456338, 0.0012324855718427884, -0.00026439367264930694,
    -0.00011688886540524657, 9.336742567522398e-05, -1.5027583655607259e-05, -1.1257487378661054e-05,
    7.1296454985369155e-06, -6.831742290176205e-07, -1.0584230301558193e-06, 5.382482829304309e-07,
    -1.1511853834797894e-08, -9.693496984154263e-08, 4.0463064851671846e-08, 3.080018742621998e-09,
    -9.387945923264826e-09, 2.616761879669667e-09, 1.0699033562069704e-09, -6.618465639548623e-10,
    -4.828868938389088e-11, 6.264384368706703e-11,
)  # fmt: skip
"""erf⁻¹(y) / y for w = −log(1 − y²) in 0 … 6.25, with u = w / 3.125 − 1"""
ENDS = (
    4.218480707652915, 1.8939929107274522, 0.0017701087788053321, -0.00336900687277914, 0.0021809396946248457,
    -0.0011757192352506104, 0.0006578820494501701, -0.00047958788479685743, 0.0004717922681930334,
    -0.000500746725756631, 0.00047581105536458155, -0.0003639795332565344, 0.00019375975307849808,
    -2.996743262065019e-05, -7.080452531342306e-05, 9.318007462332905e-05, -6.242954893364171e-05,
    1.850238880608389e-05, 9.771797376853924e-06, -1.5514549367005996e-05, 8.922848681698733e-06,
    -2.21500207687845e-06, -8.055206863746948e-07, 1.5408570515431557e-06, -1.0278892863198742e-06,
    1.530988641861693e-07, 1.8303311997166175e-07, -9.152175384853419e-08, 1.0752540180914145e-08,
)  # fmt: skip
"""erf⁻¹(y) / y for √w in 2.5 … 6.25, with u = (√w − 4.375) / 1.875"""
SMALL = (
    0.2070019212239867, -0.11300432688620549, 0.09451562853995128, -0.08904344136075962, 0.08734341617550408,
    -0.08496338091616305, 0.07927522590772476, -0.06954119561719381, 0.056777032011256987, -0.04298594945479612,
    0.0301779121034198, -0.01968265469059234, 0.011960077419502311, -0.0067923998730731695, 0.003617128473996364,
    -0.001811886793937724, 0.0008563093345358882, -0.00038290209550065975, 0.00016241792341840366,
    -6.550861389620851e-05, 2.5183377189964778e-05, -9.251680584432654e-06, 3.2498478284328534e-06,
    -1.0883393970072518e-06, 3.5212842626130005e-07, -1.1384114641747256e-07, 3.39695180931004e-08,
    -7.723094556846333e-09, 2.1878041523620257e-09, -1.1852342482684723e-09, 3.043616766866286e-10,
)  # fmt: skip
"""exp(−x) · I₀(x) for x in 0 … 8, with u = x / 4 − 1"""
LARGE = (
    0.4021765094450081, 0.0033605519836678614, 0.0001362160743919305, 1.1143033790932038e-05,
    1.4838475658279249e-06, 2.9735985885673933e-07, 8.872219737904006e-08, 3.932584334552845e-08,
    2.154837797479622e-08, 7.554691881255771e-09, -6.747657956134172e-09, -1.3408917540117591e-08,
    -5.404771567482956e-09, 7.552583062195046e-09, 7.430464650093539e-09, -3.5059665310003903e-09,
    -5.953569437895734e-09, 1.5200816955259402e-09, 3.6379546355134404e-09, -5.715843865128456e-10,
    -1.618980683366747e-09, 1.5279202698644172e-10, 4.5770876306584736e-10, -2.0260604293719847e-11,
    -6.067631568957739e-11,
)  # fmt: skip
"""exp(−x) · √x · I₀(x) for x ≥ 8, with u = 16 / x − 1"""
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""coefficients of s⁻², s⁻⁴, … in Stirling's series for log Γ(s), times s: B₂ₖ / (2k · (2k − 1))"""
HARMONIC = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""coefficients of s⁻², s⁻⁴, … in the series for −s² · (ψ(s) − log s + 1 / 2s): B₂ₖ / 2k"""
