"""Running products, extremes and sums of exponentials, and quantiles of ordered elements.

A running value is found in as many steps as its axis' length has binary digits: after each step an element stands for
twice as many before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import flag, integer, number, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.reduce import added_as
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import broadcast_to, cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.reshape import reshape, squeeze
from explorer.ops.reduction.reduce import any
from explorer.ops.reduction.sorting import argsort

_Parts = tuple[Expr, ...]
_FORMS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda rank: rank - np.floor(rank),
    "lower": lambda rank: rank * 0,
    "higher": lambda rank: rank * 0 + 1,
    "nearest": lambda rank: np.round(rank) - np.floor(rank),
    "midpoint": lambda rank: rank * 0 + rank.dtype.type(0.5),
}
"""torch's word for what lies between two places → the share of the higher one"""


def _running(parts: _Parts, axis: int, combine: Callable[[_Parts, _Parts], _Parts]) -> _Parts:
    """Return the values of an associative function of each element and all before it along an axis."""
    front, reach = (slice(None),) * axis, 1
    length = parts[0].shape[axis] if parts[0].ndim else 0
    while reach < length:
        earlier, later = (
            tuple([x[(*front, each)] for x in parts]) for each in (slice(0, length - reach), slice(reach, None))
        )
        joined = zip([x[(*front, slice(0, reach))] for x in parts], combine(earlier, later), strict=True)
        parts, reach = tuple([concatenate(each, axis) for each in joined]), 2 * reach
    return parts


def _axis(op: OperatorContext, x: Expr) -> int:
    # torch takes a scalar for a vector of one element
    return normalize_axis(integer(op, 1, "dim"), max(x.ndim, 1), op.definition.type)


@file_operator("torch.cumprod", "Tensor.cumprod", "aten::cumprod", operands=Count(1, 3))
def cumprod(op: OperatorContext) -> Expr:
    """The product of each element and all before it along an axis."""
    x = cast(op.x, added_as(op, op.x))
    if len(op.passed) > 2 and op.operand(2) is not None:
        raise OperandError(f"dtype={op.operand(2)!r}", rule=f"{op.definition.type}: dtype must be None, or a name")
    return _running((x,), _axis(op, x), lambda a, b: (a[0] * b[0],))[0]


@file_operator("torch.logcumsumexp", "aten::logcumsumexp", operands=Count(1, 2))
def logcumsumexp(op: OperatorContext) -> Expr:
    """The logarithm of the sum of the exponentials of each element and all before it along an axis."""
    x, add = op.x, function("logaddexp")
    return _running((x,), _axis(op, x), lambda a, b: (add(a[0], b[0]),))[0]


def _enter_extreme(name: str, records: str) -> None:
    @file_operator(f"torch.{name}", f"aten::{name}", operands=Count(1, 2))
    def extreme(op: OperatorContext) -> _Parts:
        x = op.x
        axis = _axis(op, x)
        shape = [1] * x.ndim
        if x.ndim:
            shape[axis] = x.shape[axis]
        places = broadcast_to(tensor(np.arange(x.shape[axis] if x.ndim else 1).reshape(shape)), x.shape)

        def combine(a: _Parts, b: _Parts) -> _Parts:
            # of equal ones the last, and NaN before all numbers
            is_later = function("logical_or")(b[0] != b[0], function(records)(b[0], a[0]) & (a[0] == a[0]))
            return where(is_later, b[0], a[0]), where(is_later, b[1], a[1])

        return _running((x, places), axis, combine)

    extreme.__doc__ = f"{name}: the extreme of each element and all before it along an axis, and its place."


_enter_extreme("cummax", "greater_equal")
_enter_extreme("cummin", "less_equal")


@file_operator("torch.quantile", "aten::quantile", operands=Count(2, 5))
def quantile(op: OperatorContext) -> Expr:
    """The element below which a share q of the elements lies, between two neighbours where it falls there."""
    x, share, form = op.x, number(op, 1, "q"), value(op, 4, "interpolation", "linear")
    dim, keep = value(op, 2, "dim", None), flag(op, 3, "keepdim", False)
    if not 0 <= share <= 1 or form not in _FORMS or x.dtype.kind != "f" or not x.size:
        raise OperandError(
            f"q={share!r} of {x.type}, interpolation={form!r}",
            rule=f"{op.definition.type}: q must lie in 0 … 1, interpolation be one of {', '.join(_FORMS)}, and there "
            "must be real numbers",
        )
    shape = (1,) * x.ndim
    if dim is None:
        x, axis = reshape(x, (x.size,)), 0
    else:
        axis = normalize_axis(integer(op, 2, "dim"), x.ndim, "quantile")
    # the place is a number of the operand's dtype, as in torch
    rank = x.dtype.type(share) * x.dtype.type(x.shape[axis] - 1)
    ordered = TakeAlong(axis)(x, argsort(x, axis))
    front = (slice(None),) * axis
    low, high = (ordered[(*front, slice(int(each), int(each) + 1))] for each in (np.floor(rank), np.ceil(rank)))
    result: Any = low + (high - low) * _FORMS[form](rank)
    # NaN is sorted last
    result = where(any(x != x, axis, keepdims=True), np.nan, where(low == high, low, result))
    if dim is None:
        return reshape(result, shape if keep else ())
    return result if keep else squeeze(result, axis)
