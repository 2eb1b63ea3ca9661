"""Functions of two numbers: hypot, copysign, nextafter, heaviside, fmax, fmin, gcd and lcm."""

from __future__ import annotations

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.ops.base import Ufunc
from explorer.ops.elementwise.arithmetic import APART, logical_or, where
from explorer.ops.elementwise.unary import isnan, signbit

__all__ = ["copysign", "fmax", "fmin", "gcd", "heaviside", "hypot", "lcm", "nextafter"]

_AWAY = (
    Example(real(2, 3, low=0.2, high=2.0), real(3, low=-2.0, high=-0.2)),
    Example(real(), real(2, low=0.3, high=1.0)),
)
_INTEGERS = (Example(integers(2, 3, low=1, high=20), integers(3, low=1, high=9)),)
_NONDIFFERENTIABLE = "integers have no derivative"


def over(x: Expr, length: Expr) -> Expr:
    """Record ``x`` divided by ``length``, or 0 if the length is 0."""
    is_zero = length == 0
    return where(is_zero, 0, x / where(is_zero, 1, length))


class Hypot(Ufunc):
    """√(a² + b²), without overflow.

    The gradients are g · (a / y) and g · (b / y), with 0 / 0 replaced by 0. The first and second derivatives at (0, 0),
    where hypot is not differentiable, are therefore 0.
    """

    ufunc, commutative, range, weight, examples = np.hypot, True, "nonnegative", 8, _AWAY

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g * over(a, y), g * over(b, y)


class Copysign(Ufunc):
    """|a| with the sign of b, including the sign of −0.0; the gradient at a = 0 is 0."""

    ufunc, examples = np.copysign, _AWAY

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, None]:
        return where(a == 0, 0, where(signbit(y) == signbit(a), g, -g)), None


class Nextafter(Ufunc):
    """The number next to a in the direction of b; a itself if they are equal."""

    ufunc, examples = np.nextafter, _AWAY

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, None]:
        return g, None


class Heaviside(Ufunc):
    """0 if x is negative, 1 if it is positive, and h if it is 0."""

    ufunc, examples = np.heaviside, _AWAY

    def gradient(self, g: Expr, y: Expr, x: Expr, h: Expr) -> tuple[None, Expr]:
        return None, where(x == 0, g, 0)


class Fmax(Ufunc):
    """Maximum of a and b, or the other operand if one of them is NaN.

    If a and b are equal, a gets the whole gradient.
    """

    ufunc, commutative, associative, idempotent, monotone, examples = np.fmax, True, True, True, True, APART

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return _selected_gradients(g, logical_or(a >= b, isnan(b)))


class Fmin(Ufunc):
    """Minimum of a and b, or the other operand if one of them is NaN.

    If a and b are equal, a gets the whole gradient.
    """

    ufunc, commutative, associative, idempotent, monotone, examples = np.fmin, True, True, True, True, APART

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return _selected_gradients(g, logical_or(a <= b, isnan(b)))


def _selected_gradients(g: Expr, first: Expr) -> tuple[Expr, Expr]:
    """Return the gradients of a and b; ``first`` is True where a is selected."""
    return where(first, g, 0), where(first, 0, g)


class Gcd(Ufunc):
    """Greatest common divisor of integers."""

    ufunc, commutative, associative, weight, nondifferentiable, examples = (
        np.gcd,
        True,
        True,
        20,
        _NONDIFFERENTIABLE,
        _INTEGERS,
    )


class Lcm(Ufunc):
    """Least common multiple of integers."""

    # not associative, because intermediate multiples may overflow in one order but not in another
    ufunc, commutative, weight, nondifferentiable, examples = np.lcm, True, 20, _NONDIFFERENTIABLE, _INTEGERS


hypot, copysign, nextafter, heaviside = Hypot(), Copysign(), Nextafter(), Heaviside()
fmax, fmin, gcd, lcm = Fmax(), Fmin(), Gcd(), Lcm()
