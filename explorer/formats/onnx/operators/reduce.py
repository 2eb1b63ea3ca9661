"""Reductions over axes.

``axes`` is an attribute before opset 18 (13 for ReduceSum), and an input since then. If it is omitted or empty, all
axes are reduced. With ``noop_with_empty_axes``, none are reduced, but squares and absolute values are still computed.
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


def _register(type: str, reduce: Callable[..., Expr], before: Callable[[Expr], Expr] | None = None) -> None:
    @operator(type)
    def reduction(
        data: Expr, axes: Known[Ints] | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Expr:
        x = data if before is None else before(data)
        chosen = axes or (() if noop_with_empty_axes else None)
        return cast(reduce(x, chosen, bool(keepdims)), data.dtype)

    reduction.__doc__ = reduce.__doc__


@rounded_once
def _l2(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
    """Return the square root of the sum of squares."""
    return sqrt(sum(square(x), axes, keep))


@rounded_once
def _sum_of_squares(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
    """Return the sum of squares."""
    return sum(square(x), axes, keep)


@rounded_once
def _log_sum(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
    """Return the logarithm of the sum."""
    return log(sum(x, axes, keep))


def _extreme(reduce: Callable[..., Expr], sign: int) -> Callable[..., Expr]:
    """Return a maximum or minimum function; for empty operands, it returns the dtype's smallest or largest number."""

    def extreme(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
        if x.size or axes == ():
            return reduce(x, axes, keep)
        shape = sum(x, axes, keep).shape
        return full(shape, _limit(x.dtype, sign), x.dtype, x.type.device)

    extreme.__doc__ = reduce.__doc__
    return extreme


def _limit(dtype: np.dtype[Any], sign: int) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    return sign * np.inf if dtype.kind == "f" else sign > 0


_register("ReduceSum", sum)
_register("ReduceMean", mean)
_register("ReduceProd", prod)
_register("ReduceMax", _extreme(max, -1))
_register("ReduceMin", _extreme(min, 1))
_register("ReduceL1", sum, absolute)
_register("ReduceL2", _l2)
_register("ReduceSumSquare", _sum_of_squares)
_register("ReduceLogSum", _log_sum)
_register("ReduceLogSumExp", logsumexp)
