"""Reductions of axes.

``axes`` is an attribute before opset 18 (13 for ReduceSum) and an input from then on. No axes, or an empty list, means
all of them, unless ``noop_with_empty_axes`` is set: then nothing is reduced, but squares and absolute values are still
taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.signature import Ints, Known
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.unary import absolute, log, sqrt, square
from explorer.ops.nn.softmax import logsumexp
from explorer.ops.reduction.reduce import max, mean, min, prod, sum


def _enter(type: str, reduce: Callable[..., Expr], before: Callable[[Expr], Expr] | None = None) -> None:
    @operator(type)
    def reduction(
        data: Expr, axes: Known[Ints] | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Expr:
        entering = data if before is None else before(data)
        chosen = axes or (() if noop_with_empty_axes else None)
        return cast(reduce(entering, chosen, bool(keepdims)), data.dtype)

    reduction.__doc__ = reduce.__doc__


@rounded_once
def _l2(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
    """The square root of the sum of squares."""
    return sqrt(sum(square(x), axes, keep))


@rounded_once
def _sum_of_squares(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
    """The sum of squares."""
    return sum(square(x), axes, keep)


@rounded_once
def _log_sum(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
    """The logarithm of the sum."""
    return log(sum(x, axes, keep))


def _extreme(reduce: Callable[..., Expr], sign: int) -> Callable[..., Expr]:
    """Return an extreme that is, of no elements, the number of its dtype that all others beat, as the standard says."""

    def extreme(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
        if x.size or axes == ():
            return reduce(x, axes, keep)
        shape = sum(x, axes, keep).shape
        return full(shape, _beaten(x.dtype, sign), x.dtype, x.type.device)

    extreme.__doc__ = reduce.__doc__
    return extreme


def _beaten(dtype: np.dtype[Any], sign: int) -> Any:
    """The largest (sign 1) or smallest (sign −1) number of a dtype."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    return sign * np.inf if dtype.kind == "f" else sign > 0


_enter("ReduceSum", sum)
_enter("ReduceMean", mean)
_enter("ReduceProd", prod)
_enter("ReduceMax", _extreme(max, -1))
_enter("ReduceMin", _extreme(min, 1))
_enter("ReduceL1", sum, absolute)
_enter("ReduceL2", _l2)
_enter("ReduceSumSquare", _sum_of_squares)
_enter("ReduceLogSum", _log_sum)
_enter("ReduceLogSumExp", logsumexp)
