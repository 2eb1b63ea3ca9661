"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import as_dtype, in_dtype
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import real
from explorer.net.operators.signature import Ints, Names
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.nn.softmax import logsumexp
from explorer.ops.reduction.reduce import all, any, max, mean, min, prod, sum
from explorer.ops.reduction.statistics import std, var


def sum_dtype(x: Expr, dtype: str | None = None) -> np.dtype[Any]:
    """Return the dtype of a sum: ``dtype`` if given, else int64 for integers, else the dtype of ``x``."""
    return as_dtype(dtype, x.dtype if x.dtype.kind in "fc" else np.int64)


def _register_reduction(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def reduction(input: Expr, dim: Ints | None = None, keepdim: bool = False) -> Expr:
        result = reduce(real(input) if name == "logsumexp" else input, dim or None, keepdim)
        # as in torch, for compatibility with uint8 masks
        return cast(result, input.dtype) if name in ("all", "any") and input.dtype == np.uint8 else result

    reduction.__doc__ = reduce.__doc__


for _reduce, _name in (
    (max, "amax"), (min, "amin"), (all, "all"), (any, "any"), (logsumexp, "logsumexp"),
):  # fmt: skip
    _register_reduction(_reduce, _name)


@file_operator("torch.mean", "Tensor.mean", "aten::mean")
def mean_(input: Expr, dim: Ints | None = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
    """Return the mean over the axes ``dim``."""
    return mean(in_dtype(input, dtype), dim or None, keepdim)


def _register_sum(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def total(input: Expr, dim: Ints | None = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
        wide = sum_dtype(input, dtype)
        # NumPy accumulates narrow integers in int64
        return cast(reduce(cast(input, wide), dim or None, keepdim), wide)

    total.__doc__ = reduce.__doc__


_register_sum(sum, "sum")
_register_sum(prod, "prod")


Correction = Annotated[float | bool | None, Names("unbiased", "correction")]
"""integer subtracted from the number of elements in the divisor; the default is 1 in torch and 0 in NumPy"""


def _spread_arguments(
    dim: Ints | bool | None, correction: float | bool | None, keepdim: bool
) -> tuple[Ints | None, int, bool]:
    """Return a variance's axes, correction and keepdim; in the signature (x, unbiased), ``dim`` is the correction."""
    axes, correction = (None, dim) if isinstance(dim, bool) else (dim or None, correction)
    correction = 1 if correction is None else correction
    if correction % 1:
        raise OperandError(f"correction={correction!r}", rule="correction must be an integer")
    return axes, int(correction), keepdim


def _register_spread(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def spread(
        input: Expr, dim: Ints | bool | None = None, correction: Correction = None, keepdim: bool = False
    ) -> Expr:
        return reduce(input, *_spread_arguments(dim, correction, keepdim))

    spread.__doc__ = reduce.__doc__

    @file_operator(f"torch.{name}_mean", f"aten::{name}_mean")
    def spread_and_mean(
        input: Expr, dim: Ints | bool | None = None, correction: Correction = None, keepdim: bool = False
    ) -> tuple[Expr, Expr]:
        axes, difference, keep = _spread_arguments(dim, correction, keepdim)
        return reduce(input, axes, difference, keep), mean(input, axes, keepdims=keep)

    spread_and_mean.__doc__ = f"Compute the {name} and the mean over axes."


_register_spread(var, "var")
_register_spread(std, "std")


@file_operator("aten::nansum", "torch.nansum")
def nansum(input: Expr, dim: Ints | None = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
    """Sum all elements except NaN over the axes ``dim``."""
    wide = sum_dtype(input, dtype)
    return cast(sum(cast(where(input != input, 0, input), wide), dim or None, keepdim), wide)


@file_operator("aten::nanmean", "torch.nanmean")
def nanmean(input: Expr, dim: Ints | None = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
    """Average all elements except NaN over the axes ``dim``."""
    return _nanmean(in_dtype(input, dtype), dim or None, keepdim)


@rounded_once
def _nanmean(x: Expr, axes: Ints | None, keep: bool) -> Expr:
    count = sum(cast(x == x, x.dtype), axes, keep)
    total: Expr = sum(where(x != x, 0, x), axes, keep)
    return total / count


@file_operator("aten::aminmax", "torch.aminmax")
def aminmax(input: Expr, dim: Ints | None = None, keepdim: bool = False) -> tuple[Expr, Expr]:
    """Return the smallest and the largest element, of the whole tensor or along the axis ``dim``."""
    return min(input, dim or None, keepdim), max(input, dim or None, keepdim)


@file_operator("aten::count_nonzero")
def count_nonzero(input: Expr, dim: Ints | None = None) -> Expr:
    """Count the nonzero elements over the axes ``dim``."""
    return sum(cast(input != 0, np.dtype(np.int64)), dim or None)


@file_operator("aten::trapezoid", "torch.trapezoid", "aten::trapz")
def trapezoid(y: Expr, x: Annotated[Expr | float, Names("x", "dx")] = 1.0, dim: int = -1) -> Expr:
    """Integrate along the axis ``dim`` with the trapezoidal rule; ``x`` is the step, or contains the points."""
    axis = normalize_axis(dim, y.ndim, "trapezoid")
    front = (slice(None),) * axis
    sums = y[(*front, slice(1, None))] + y[(*front, slice(0, -1))]
    if not isinstance(x, Expr):
        return sum(sums, axis) * (x / 2)
    if x.shape not in (y.shape, y.shape[axis : axis + 1]):
        raise OperandError(
            f"points {x.type} for {y.type}",
            rule="x must have one point for each element of y, or one for each index of the axis",
        )
    before = (slice(None),) * (axis if x.ndim == y.ndim else 0)
    widths = x[(*before, slice(1, None))] - x[(*before, slice(0, -1))]
    if x.ndim < y.ndim:
        widths = reshape(widths, (widths.size, *[1] * (y.ndim - axis - 1)))
    return sum(sums * widths, axis) / 2
