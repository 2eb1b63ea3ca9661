"""Variance, standard deviation and norms over axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import normalize_axes
from explorer.ops.accumulation_dtype import PAccumulateIn, rounded_once
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, sqrt, square
from explorer.ops.reduction.reduce import max, mean, min, sum

__all__ = ["std", "var", "vector_norm"]


@public
@composition
@rounded_once
def var(
    x: Any, axis: int | tuple[int, ...] | None = None, ddof: float = 0, keepdims: bool = False, *, policies: Items = ()
) -> Expr:
    """Compute the variance Σ |x − mean|² / (count − ddof) over axes, or over all axes if ``axis`` is None.

    >>> float(ex.var(np.array([1.0, 3.0]))), float(ex.var(np.array([1.0, 3.0]), ddof=1))
    (1.0, 2.0)
    """
    (x,) = as_operands((x,))
    axes = normalize_axes(axis, x.ndim, "var")
    if not isinstance(ddof, Real):
        raise OperandError(f"var: ddof: {ddof!r}", rule="the value must be a number", fix="ddof=1")
    # Use two passes, because Σx² − (Σx)² / n would lose precision if the mean is much larger than the deviation.
    squares = _squares(x - deviation_mean(x, axes, keepdims=True))
    if not ddof:
        return mean(squares, axes, keepdims)
    count = math.prod([x.shape[single_axis] for single_axis in axes])
    # if no degrees of freedom are left, the divisor is 0, so the result is ∞ or NaN as in NumPy
    return sum(squares, axes, keepdims) / float(builtins.max(count - ddof, 0))


@public
@composition
@rounded_once
def std(
    x: Any, axis: int | tuple[int, ...] | None = None, ddof: float = 0, keepdims: bool = False, *, policies: Items = ()
) -> Expr:
    """Compute the standard deviation, the root of the variance, over axes, or over all axes if ``axis`` is None.

    If the deviation is 0, its gradient is 0.

    >>> ex.evaluate(ex.std(np.array([1.0, 3.0])))
    array(1.)
    """
    return _root(var(x, axis, ddof, keepdims))


def deviation_mean(x: Expr, axes: tuple[int, ...], keepdims: bool = False) -> Expr:
    """Record the mean from which deviations are computed.

    If the last axis is reduced, NumPy uses pairwise summation. Otherwise it adds rows one by one, so float32 is
    accumulated in float64: in float32, the mean of 20,000 rows of values around 1e5 would be wrong by 15, and the
    variance by 221.
    """
    is_sequential = x.dtype == np.float32 and x.ndim - 1 not in axes and axes
    return mean(x, axes, keepdims, policies=[PAccumulateIn(np.float64)] if is_sequential else ())


def _squares(x: Expr) -> Expr:
    return square(absolute(x) if x.dtype.kind == "c" else x)


def _root(x: Expr) -> Expr:
    """Record √x for non-negative ``x``; the gradient at 0, where the derivative is infinite, is defined as 0."""
    return _guarded(x, sqrt)


def _power(x: Expr, exponent: float) -> Expr:
    """Record ``x`` to the power of a positive exponent for non-negative ``x``; the gradient at 0 is 0."""
    return _guarded(x, lambda positive: positive**exponent)


def _guarded(x: Expr, function: Callable[[Expr], Expr]) -> Expr:
    # Replace 0 with 1 before calling the function. Otherwise, because ``where`` computes both operands, the gradient of
    # the unused one would be 0 · ∞ = NaN.
    is_zero = x == 0
    return where(is_zero, 0, function(where(is_zero, 1, x)))


@public
@composition
@rounded_once
def vector_norm(
    x: Any, order: float = 2, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = ()
) -> Expr:
    """Compute (Σ |x|ᵖ)^(1/p), where p is ``order``, over axes, or over all axes if ``axis`` is None.

    The orders ±∞ give the largest or smallest |x|, and 0 gives the number of nonzero elements. For positive orders the
    gradient at 0 is 0.

    >>> ex.evaluate(ex.vector_norm(np.array([3.0, 4.0])))
    array(5.)
    """
    (x,) = as_operands((x,))
    axes = normalize_axes(axis, x.ndim, "vector_norm")
    if order == 2:
        return _root(sum(_squares(x), axes, keepdims))
    magnitude = absolute(x)
    if math.isinf(order):
        return (max if order > 0 else min)(magnitude, axes, keepdims)
    if order == 0:
        return sum(cast(x != 0, x.dtype), axes, keepdims)
    if order == 1:
        return sum(magnitude, axes, keepdims)
    if order < 0:
        return sum(magnitude**order, axes, keepdims) ** (1 / order)
    # for orders of 2 and more, the derivative of |x|ᵖ at 0 is finite
    powers = magnitude**order if order >= 2 else _power(magnitude, order)
    return _power(sum(powers, axes, keepdims), 1 / order)
