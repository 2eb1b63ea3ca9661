"""Variance, standard deviation and norms over axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import normalize_axes, whole
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
    x: Any, axis: int | tuple[int, ...] | None = None, ddof: int = 0, keepdims: bool = False, *, policies: Items = ()
) -> Expr:
    """Compute the variance over axes, over all of them for None: Σ |x − mean|² / (count − ddof).

    >>> float(ex.var(np.array([1.0, 3.0]))), float(ex.var(np.array([1.0, 3.0]), ddof=1))
    (1.0, 2.0)
    """
    (x,) = as_operands((x,))
    axes, ddof = normalize_axes(axis, x.ndim, "var"), whole(ddof, "var: ddof")
    # In two passes: Σx² − (Σx)² / n would cancel where the mean is large against the deviation.
    squares = _squares(x - centre(x, axes, keepdims=True))
    if not ddof:
        return mean(squares, axes, keepdims)
    count = math.prod([x.shape[single_axis] for single_axis in axes])
    # not below 0: NumPy gives ∞ or NaN where ddof takes all degrees of freedom
    return sum(squares, axes, keepdims) / float(builtins.max(count - ddof, 0))


@public
@composition
@rounded_once
def std(
    x: Any, axis: int | tuple[int, ...] | None = None, ddof: int = 0, keepdims: bool = False, *, policies: Items = ()
) -> Expr:
    """Compute the standard deviation over axes, over all of them for None: the root of the variance.

    The gradient of a deviation 0 is 0.

    >>> ex.evaluate(ex.std(np.array([1.0, 3.0])))
    array(1.)
    """
    return _root(var(x, axis, ddof, keepdims))


def centre(x: Expr, axes: tuple[int, ...], keepdims: bool = False) -> Expr:
    """Record the mean that deviations are taken from: of float32 accumulated in float64 where the last axis is kept.

    There NumPy adds the rows one by one: at 1e5 the mean of 20,000 rows is wrong by 15, and their variance by 221.
    Along the last axis it adds pairwise.
    """
    one_by_one = x.dtype == np.float32 and x.ndim - 1 not in axes and axes
    return mean(x, axes, keepdims, policies=[PAccumulateIn(np.float64)] if one_by_one else ())


def _squares(x: Expr) -> Expr:
    """Record |x|², which is x² for real numbers."""
    return square(absolute(x) if x.dtype.kind == "c" else x)


def _root(x: Expr) -> Expr:
    """Record √x of non-negative x; at 0, where the root has no slope, the gradient is 0."""
    return _guarded(x, sqrt)


def _power(x: Expr, exponent: float) -> Expr:
    """Record x to a positive power, of non-negative x; at 0 the gradient is 0."""
    return _guarded(x, lambda positive: positive**exponent)


def _guarded(x: Expr, function: Callable[[Expr], Expr]) -> Expr:
    # the function sees a 1 in place of 0: both operands of ``where`` are computed, and 0 · ∞ of the unused one would be
    # NaN
    least = x == 0
    return where(least, 0, function(where(least, 1, x)))


@public
@composition
@rounded_once
def vector_norm(
    x: Any, order: float = 2, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = ()
) -> Expr:
    """Compute (Σ |x|ᵖ)^(1/p) over axes, all for None; ``order`` p is ±∞ (an extreme), 0 (a count) or a number.

    The gradient of a norm of positive order at 0 is 0.

    >>> ex.evaluate(ex.vector_norm(np.array([3.0, 4.0])))
    array(5.)
    """
    (x,) = as_operands((x,))
    axes = normalize_axes(axis, x.ndim, "vector_norm")
    if order == 2:
        return _root(sum(_squares(x), axes, keepdims))
    size = absolute(x)
    if math.isinf(order):
        return (max if order > 0 else min)(size, axes, keepdims)
    if order == 0:
        return sum(cast(x != 0, x.dtype), axes, keepdims)
    if order == 1:
        return sum(size, axes, keepdims)
    if order < 0:
        return sum(size**order, axes, keepdims) ** (1 / order)
    # from order 2 on the derivatives of |x|ᵖ are finite at 0
    powers = size**order if order >= 2 else _power(size, order)
    return _power(sum(powers, axes, keepdims), 1 / order)
