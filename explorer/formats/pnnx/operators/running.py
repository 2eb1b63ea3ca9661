"""Cumulative sums, products, extremes and log-sum-exps, and differences of neighbours.

Cumulative values are computed in log₂(length) steps. Each step doubles the number of elements that every result
combines.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.reduce import sum_dtype
from explorer.ops.base import broadcast_to, cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.reduction.sorting import cumsum

_Parts = tuple[Expr, ...]


def _running(parts: _Parts, dim: int, combine: Callable[[_Parts, _Parts], _Parts]) -> _Parts:
    """Apply the associative function ``combine`` cumulatively along an axis; ``parts`` are the tensors it combines."""
    # torch treats a scalar as a vector of one element
    axis = normalize_axis(dim, max(parts[0].ndim, 1), "a cumulative function")
    front, reach = (slice(None),) * axis, 1
    length = parts[0].shape[axis] if parts[0].ndim else 0
    while reach < length:
        earlier, later = (
            tuple([x[(*front, each)] for x in parts]) for each in (slice(0, length - reach), slice(reach, None))
        )
        joined = zip([x[(*front, slice(0, reach))] for x in parts], combine(earlier, later), strict=True)
        parts, reach = tuple([concatenate(each, axis) for each in joined]), 2 * reach
    return parts


@file_operator("torch.cumsum", "Tensor.cumsum", "aten::cumsum")
def cumsum_(input: Expr, dim: int, dtype: str | None = None) -> Expr:
    """Return the cumulative sums along the axis ``dim``."""
    wide = sum_dtype(input, dtype)
    return cast(cumsum(cast(input, wide), dim), wide)


@file_operator("torch.cumprod", "Tensor.cumprod", "aten::cumprod")
def cumprod(input: Expr, dim: int, dtype: str | None = None) -> Expr:
    """Return the cumulative products along the axis ``dim``."""
    return _running((cast(input, sum_dtype(input, dtype)),), dim, lambda a, b: (a[0] * b[0],))[0]


@file_operator("torch.logcumsumexp", "aten::logcumsumexp")
def logcumsumexp(input: Expr, dim: int) -> Expr:
    """Return the logarithm of the cumulative sums of exponentials along the axis ``dim``."""
    add = function("logaddexp")
    return _running((input,), dim, lambda a, b: (add(a[0], b[0]),))[0]


def _register_extreme(name: str, records: str) -> None:
    @file_operator(f"torch.{name}", f"aten::{name}")
    def extreme(input: Expr, dim: int) -> _Parts:
        shape = [1] * input.ndim
        if input.ndim:
            axis = normalize_axis(dim, input.ndim, name)
            shape[axis] = input.shape[axis]
        indices = np.arange(math.prod(shape)).reshape(shape)

        def combine(a: _Parts, b: _Parts) -> _Parts:
            # of equal elements, the last one is selected; NaN takes precedence over numbers
            is_later = function("logical_or")(b[0] != b[0], function(records)(b[0], a[0]) & (a[0] == a[0]))
            return where(is_later, b[0], a[0]), where(is_later, b[1], a[1])

        return _running((input, broadcast_to(tensor(indices), input.shape)), dim, combine)

    extreme.__doc__ = f"Compute {name} along an axis; return the cumulative extremes and their indices."


_register_extreme("cummax", "greater_equal")
_register_extreme("cummin", "less_equal")


@file_operator("aten::diff")
def diff(input: Expr, n: int = 1, dim: int = -1, prepend: None = None, append: None = None) -> Expr:
    """Return the differences of neighbours along the axis ``dim``, computed n times."""
    axis = normalize_axis(dim, input.ndim, "diff")
    if n < 0:
        raise OperandError(f"n={n}", rule="n must be 0 or more")
    claim_steps("diff", n)
    front, x = (slice(None),) * axis, input
    for _ in range(n):
        later, earlier = x[(*front, slice(1, None))], x[(*front, slice(0, -1))]
        x = later != earlier if x.dtype.kind == "b" else later - earlier
    return x
