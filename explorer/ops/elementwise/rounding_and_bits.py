"""Rounding, division with remainder, and bitwise operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import Array
from explorer.ops.base import Ufunc

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "divmod",
    "floor",
    "floor_divide",
    "fmod",
    "invert",
    "left_shift",
    "remainder",
    "right_shift",
    "round_half_even",
    "trunc",
]

_NONDIFFERENTIABLE = "constant wherever it has a derivative"
_AWAY_FROM_STEPS = (Example(real(2, 3, low=0.1, high=0.4)), Example(real(3, low=-2.9, high=-2.6)))
_QUOTIENTS = (
    Example(real(2, 3, low=0.1, high=0.9), real(3, low=1.0, high=2.0)),
    Example(real(3, low=-0.9, high=-0.1), real(3, low=1.0, high=2.0)),
)
_INTEGERS = (Example(integers(2, 3), integers(3)),)
_SHIFTS = (Example(integers(2, 3), integers(3, high=4)),)


class Floor(Ufunc):
    """Largest integer not greater than x."""

    ufunc, monotone, idempotent, c = np.floor, True, True, "floor_{t}({0})"
    nondifferentiable, examples = _NONDIFFERENTIABLE, _AWAY_FROM_STEPS
    defined_everywhere = True


class Ceil(Ufunc):
    """Smallest integer not less than x."""

    ufunc, monotone, idempotent, nondifferentiable, examples = np.ceil, True, True, _NONDIFFERENTIABLE, _AWAY_FROM_STEPS
    c = "ceil_{t}({0})"
    defined_everywhere = True


class Trunc(Ufunc):
    """x without its fractional part."""

    ufunc, monotone, idempotent, c = np.trunc, True, True, "trunc_{t}({0})"
    nondifferentiable, examples = _NONDIFFERENTIABLE, _AWAY_FROM_STEPS
    defined_everywhere = True


class RoundHalfEven(Ufunc):
    """Nearest integer; halves are rounded to even."""

    ufunc, monotone, idempotent, nondifferentiable, examples = np.rint, True, True, _NONDIFFERENTIABLE, _AWAY_FROM_STEPS
    c = "rint_{t}({0})"
    defined_everywhere = True


class Division(Ufunc, abstract=True):
    """Base class of division with remainder: a = b · quotient + remainder, where the remainder has the sign of b.

    NumPy computes quotient and remainder with fmod, which is exact. CuPy computes ⌊a / b⌋ first, so its remainder for a
    = 1e30 and b = 2.5 is −7e13, and its quotient for a = ∞ is ∞ instead of NaN. These classes therefore implement
    NumPy's algorithm for devices other than the CPU.
    """

    def kernel(self, out: Any, *operands: Array) -> Array:
        result: Array = out
        if isinstance(out, np.ndarray) or out.dtype.kind != "f":
            return super().kernel(out, *operands)
        # like NumPy, divide half precision in single precision and round only the result
        dtype = np.result_type(out.dtype, np.float32)
        a, b = [operand.astype(dtype, copy=False) for operand in operands]
        rest = np.fmod(a, b)
        # fmod's result has the sign of a; if b has the other sign, add b to the remainder and subtract 1 from the
        # quotient
        is_other = (rest != 0) & ((b < 0) != (rest < 0))
        self._finish(result, a, b, rest, is_other)
        return result

    def bind_kernel(self, out: Any, *operands: Array) -> Callable[[], Any]:
        return functools.partial(self.ufunc, *operands, out=out)

    def _finish(self, out: Any, a: Array, b: Array, rest: Array, is_other: Array) -> None:
        """Write the result into ``out``.

        ``rest`` is fmod's remainder, and ``is_other`` is True where its sign differs from b's.
        """
        raise NotImplementedError


class FloorDivide(Division):
    """Floor division, ⌊a / b⌋."""

    ufunc, nondifferentiable, weight, examples = np.floor_divide, _NONDIFFERENTIABLE, 4, _QUOTIENTS

    def _finish(self, out: Any, a: Array, b: Array, rest: Array, is_other: Array) -> None:
        quotient = (a - rest) / b - is_other
        floored = np.floor(quotient)
        # a − rest is a multiple of b except for rounding errors, so take the nearest integer
        floored = floored + (quotient - floored > 0.5)
        floored = np.where(quotient != 0, floored, np.copysign(quotient * 0, a / b))
        np.copyto(out, np.where(b != 0, floored, a / b), casting="same_kind")


@public
def divmod(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Record the quotient ⌊a / b⌋ and the remainder a − b · ⌊a / b⌋; return both.

    >>> ex.evaluate(ex.divmod(np.array([7, -7]), 3))
    (array([ 2, -3]), array([1, 2]))
    """
    return floor_divide(a, b), remainder(a, b)


class Fmod(Ufunc):
    """Remainder of division truncated towards zero; it has the sign of a."""

    ufunc, weight, examples = np.fmod, 4, _QUOTIENTS

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        # y = a − b · n, where the integer n is piecewise constant; n is computed from y, because truncating a / b could
        # give an n that is too large by 1
        return g, -g * round_half_even((a - y) / b)


class Remainder(Division):
    """Remainder of floor division; it has the sign of b."""

    ufunc, weight, examples = np.remainder, 4, _QUOTIENTS

    def _finish(self, out: Any, a: Array, b: Array, rest: Array, is_other: Array) -> None:
        rest = np.where(is_other, rest + b, rest)
        np.copyto(out, np.where(rest != 0, rest, np.copysign(rest, b)), casting="same_kind")

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g, -g * floor_divide(a, b)


class BitwiseAnd(Ufunc):
    """Bits set in both a and b; for booleans, the logical and."""

    ufunc, commutative, associative, idempotent = np.bitwise_and, True, True, True
    nondifferentiable, examples = "bits have no derivative", _INTEGERS


class BitwiseOr(Ufunc):
    """Bits set in a or b; for booleans, the logical or."""

    ufunc, commutative, associative, idempotent = np.bitwise_or, True, True, True
    nondifferentiable, examples = "bits have no derivative", _INTEGERS


class BitwiseXor(Ufunc):
    """Bits set in exactly one of a and b; for booleans, the exclusive or."""

    ufunc, commutative, associative = np.bitwise_xor, True, True
    nondifferentiable, examples = "bits have no derivative", _INTEGERS


class Invert(Ufunc):
    """Complement of every bit, −x − 1; for booleans, the logical not."""

    ufunc, involution, nondifferentiable, examples = (
        np.invert,
        True,
        "bits have no derivative",
        (Example(integers(2, 3)),),
    )


class LeftShift(Ufunc):
    """a with its bits shifted left by b positions."""

    ufunc, nondifferentiable, examples = np.left_shift, "bits have no derivative", _SHIFTS


class RightShift(Ufunc):
    """a with its bits shifted right by b positions."""

    ufunc, nondifferentiable, examples = np.right_shift, "bits have no derivative", _SHIFTS


floor, ceil, trunc, round_half_even = Floor(), Ceil(), Trunc(), RoundHalfEven()
floor_divide, fmod, remainder = FloorDivide(), Fmod(), Remainder()
bitwise_and, bitwise_or, bitwise_xor, invert = BitwiseAnd(), BitwiseOr(), BitwiseXor(), Invert()
left_shift, right_shift = LeftShift(), RightShift()
