"""Inverse trigonometric functions, hyperbolic functions, and logarithms to other bases.

All except Rsqrt are NumPy ufuncs. As in NumPy, results outside the domain are NaN or ±∞, but there is no warning.
"""

from __future__ import annotations

import math

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import function
from explorer.core.types.tensor_type import Array
from explorer.ops.base import EXPENSIVE, Elementwise, Ufunc
from explorer.ops.elementwise.hypot_copysign_gcd import hypot, over
from explorer.ops.elementwise.unary import square

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "cosh",
    "deg2rad",
    "exp2",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "rad2deg",
    "rsqrt",
    "sinh",
]

_ANY = (Example(real(2, 3)), Example(real()))
_INSIDE = (Example(real(2, 3, low=-0.8, high=0.8)),)
_POSITIVE = (Example(real(2, 3, low=0.3, high=3.0)),)


class Arcsin(Ufunc):
    """The angle in −π/2 … π/2 whose sine is x; NaN for x outside −1 … 1."""

    ufunc, monotone, weight, examples = np.arcsin, True, EXPENSIVE, _INSIDE
    c = "asin_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * rsqrt(1 - square(x)),)


class Arccos(Ufunc):
    """The angle in 0 … π whose cosine is x; NaN for x outside −1 … 1."""

    ufunc, range, weight, examples = np.arccos, "nonnegative", EXPENSIVE, _INSIDE
    c = "acos_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (-g * rsqrt(1 - square(x)),)


class Arctan(Ufunc):
    """The angle in −π/2 … π/2 whose tangent is x."""

    ufunc, monotone, weight, examples = np.arctan, True, EXPENSIVE, _ANY
    c = "atan_{t}({0})"
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / (1 + square(x)),)


class Arctan2(Ufunc):
    """The angle in −π … π of the point (x, y), with y as the first operand.

    The gradients are g · x / r² and −g · y / r² with r² = x² + y²; the first and second gradients at (0, 0) are 0. Each
    factor is divided by r, because r² could overflow or underflow.
    """

    ufunc, weight = np.arctan2, EXPENSIVE
    examples = (Example(real(2, 3, low=0.2, high=2.0), real(3, low=0.2, high=2.0)),)

    def gradient(self, g: Expr, result: Expr, y: Expr, x: Expr) -> tuple[Expr, Expr]:
        distance = hypot(x, y)
        g_over_r = over(g, distance)
        return g_over_r * over(x, distance), -g_over_r * over(y, distance)


class Sinh(Ufunc):
    """The hyperbolic sine."""

    ufunc, monotone, weight, examples = np.sinh, True, EXPENSIVE, _ANY
    c = "sinh_{t}({0})"
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * cosh(x),)


class Cosh(Ufunc):
    """The hyperbolic cosine."""

    ufunc, range, is_even, weight, examples = np.cosh, "positive", True, EXPENSIVE, _ANY
    c = "cosh_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * sinh(x),)


class Arcsinh(Ufunc):
    """The inverse of the hyperbolic sine."""

    ufunc, monotone, weight, examples = np.arcsinh, True, EXPENSIVE, _ANY
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * rsqrt(1 + square(x)),)


class Arccosh(Ufunc):
    """The inverse of the hyperbolic cosine; NaN for x < 1."""

    ufunc, range, monotone, weight = np.arccosh, "nonnegative", True, EXPENSIVE
    examples = (Example(real(2, 3, low=1.2, high=3.0)),)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * rsqrt(square(x) - 1),)


class Arctanh(Ufunc):
    """The inverse of the hyperbolic tangent; NaN for x outside −1 … 1."""

    ufunc, monotone, weight, examples = np.arctanh, True, EXPENSIVE, _INSIDE

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / (1 - square(x)),)


class Log10(Ufunc):
    """The logarithm to base 10; −∞ for x = 0, NaN for x < 0."""

    ufunc, monotone, weight, examples = np.log10, True, EXPENSIVE, _POSITIVE
    c = "log10_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / (x * math.log(10)),)


class Log2(Ufunc):
    """The logarithm to base 2; −∞ for x = 0, NaN for x < 0."""

    ufunc, monotone, weight, examples = np.log2, True, EXPENSIVE, _POSITIVE
    c = "log2_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / (x * math.log(2)),)


class Exp2(Ufunc):
    """2 to the power x."""

    ufunc, range, monotone, weight, examples = np.exp2, "positive", True, EXPENSIVE, _ANY
    c = "exp2_{t}({0})"
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (y * math.log(2)),)


class Cbrt(Ufunc):
    """The cube root, also of negative numbers."""

    ufunc, monotone, weight, examples = np.cbrt, True, EXPENSIVE, _POSITIVE
    c = "cbrt_{t}({0})"
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / (3 * square(y)),)


class Deg2rad(Ufunc):
    """Degrees converted to radians."""

    ufunc, linear, monotone, examples = np.deg2rad, True, True, _ANY
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (math.pi / 180),)


class Rad2deg(Ufunc):
    """Radians converted to degrees."""

    ufunc, linear, monotone, examples = np.rad2deg, True, True, _ANY
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (180 / math.pi),)


class Logaddexp2(Ufunc):
    """log₂(2ᵃ + 2ᵇ), without overflow."""

    ufunc, commutative, associative, weight = np.logaddexp2, True, True, 2 * EXPENSIVE
    examples = (Example(real(2, 3), real(3)),)

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        # 2ᵃ / (2ᵃ + 2ᵇ) computed as a sigmoid, because the powers could overflow
        sigmoid, scaled = function("sigmoid"), (a - b) * math.log(2)
        return g * sigmoid(scaled), g * sigmoid(-scaled)


class Logaddexp(Ufunc):
    """log(eᵃ + eᵇ), without overflow."""

    ufunc, commutative, associative, weight = np.logaddexp, True, True, 2 * EXPENSIVE
    examples = (Example(real(2, 3), real(3)),)

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        sigmoid = function("sigmoid")
        return g * sigmoid(a - b), g * sigmoid(b - a)


class Rsqrt(Elementwise):
    """1 / √x; ∞ for x = 0 (−∞ for −0.0), NaN for x < 0.

    Normalization layers multiply by it, which is cheaper than dividing by the square root. The gradient is −½ · g · y /
    x.
    """

    reuses_operand = True
    weight, numpy_calls, examples, c = 5, 2.5, _POSITIVE, "1 / sqrt_{t}({0})"

    def result_dtype(self, *dtypes: np.dtype[np.generic]) -> np.dtype[np.generic]:
        return np.sqrt.resolve_dtypes((*dtypes, None))[-1]

    def kernel(self, out: Array, x: Array) -> Array:
        return np.reciprocal(np.sqrt(x, out=out), out=out)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (-0.5 * y / x),)


arcsin, arccos, arctan, arctan2, sinh, cosh = Arcsin(), Arccos(), Arctan(), Arctan2(), Sinh(), Cosh()
arcsinh, arccosh, arctanh, log10, logaddexp, rsqrt = Arcsinh(), Arccosh(), Arctanh(), Log10(), Logaddexp(), Rsqrt()
log2, exp2, cbrt, deg2rad, rad2deg, logaddexp2 = Log2(), Exp2(), Cbrt(), Deg2rad(), Rad2deg(), Logaddexp2()
