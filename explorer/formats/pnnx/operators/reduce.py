"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import as_dtype, flag, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import real
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.nn.softmax import logsumexp
from explorer.ops.reduction.reduce import all, any, max, mean, min, prod, sum
from explorer.ops.reduction.statistics import std, var


def axes_of(op: OperatorContext, position: int = 1) -> tuple[int, ...] | None:
    """The axes to reduce, None for all: they are absent, None, or no axis at all."""
    if value(op, position, "dim", None) is None:
        return None
    return integers(op, position, "dim") or None


def added_as(op: OperatorContext, x: Expr) -> np.dtype[Any]:
    """Return the dtype in which elements are added or multiplied: the one asked for, else int64 for whole ones."""
    return as_dtype(op.argument("dtype", None), x.dtype if x.dtype.kind in "fc" else np.int64)


def _enter_reduction(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def reduction(op: OperatorContext) -> Expr:
        x = real(op.x) if name == "logsumexp" else op.x
        result = reduce(x, axes_of(op), flag(op, 2, "keepdim", False))
        # as in torch, where truths were uint8 once
        return cast(result, x.dtype) if name in ("all", "any") and x.dtype == np.uint8 else result

    reduction.__doc__ = reduce.__doc__


for _reduce, _name in (
    (max, "amax"), (min, "amin"), (all, "all"), (any, "any"), (logsumexp, "logsumexp"),
):  # fmt: skip
    _enter_reduction(_reduce, _name)


def _enter_sum(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def total(op: OperatorContext) -> Expr:
        dtype = as_dtype(op.argument("dtype", None), op.x.dtype) if name == "mean" else added_as(op, op.x)
        x = cast(op.x, dtype)
        result = reduce(x, axes_of(op), flag(op, 2, "keepdim", False))
        # NumPy adds short whole numbers in long ones
        return result if name == "mean" else cast(result, dtype)

    total.__doc__ = reduce.__doc__


for _reduce, _name in ((mean, "mean"), (sum, "sum"), (prod, "prod")):
    _enter_sum(_reduce, _name)


def spread_arguments(op: OperatorContext) -> tuple[tuple[int, ...] | None, int, bool]:
    """Return the axes of a variance, how many fewer than the elements it is divided by, and whether axes are kept.

    The arguments are unbiased, or dim, unbiased or correction, and keepdim; torch divides by n − 1 unless told
    otherwise, NumPy by n.
    """
    if len(op.passed) == 2 and isinstance(op.operand(1), bool):
        return None, int(op.operand(1)), False
    missing = value(op, 2, "unbiased" if op.has("unbiased") else "correction", None)
    missing = 1 if missing is None else missing
    if not isinstance(missing, (int, float)) or missing % 1:
        raise OperandError(f"correction={missing!r}", rule=f"{op.definition.type}: correction must be an integer")
    return axes_of(op), int(missing), flag(op, 3, "keepdim", False)


def _enter_spread(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}", operands=Count(1, 4))
    def spread(op: OperatorContext) -> Expr:
        return reduce(op.x, *spread_arguments(op))

    spread.__doc__ = reduce.__doc__


_enter_spread(var, "var")
_enter_spread(std, "std")


@file_operator("aten::std_mean", "aten::var_mean", "torch.std_mean", "torch.var_mean", operands=Count(1, 4))
def spread_and_mean(op: OperatorContext) -> tuple[Expr, Expr]:
    """The standard deviation or variance, and the mean, along axes."""
    axes, missing, keep = spread_arguments(op)
    spread = std if "std" in op.definition.type else var
    return spread(op.x, axes, missing, keep), mean(op.x, axes, keepdims=keep)


@file_operator("aten::nansum", "torch.nansum", operands=Count(1, 4))
def sum_of_numbers(op: OperatorContext) -> Expr:
    """The sum along axes of all elements but NaN."""
    x, dtype = op.x, _dtype(op, added_as(op, op.x))
    return cast(sum(cast(where(x != x, 0, x), dtype), axes_of(op), flag(op, 2, "keepdim", False)), dtype)


@file_operator("aten::nanmean", "torch.nanmean", operands=Count(1, 4))
def mean_of_numbers(op: OperatorContext) -> Expr:
    """The mean along axes of all elements but NaN."""
    return _mean_of_numbers(cast(op.x, _dtype(op, op.x.dtype)), axes_of(op), flag(op, 2, "keepdim", False))


@rounded_once
def _mean_of_numbers(x: Expr, axes: tuple[int, ...] | None, keep: bool) -> Expr:
    count = sum(cast(x == x, x.dtype), axes, keep)
    total: Expr = sum(where(x != x, 0, x), axes, keep)
    return total / count


def _dtype(op: OperatorContext, default: np.dtype[Any]) -> np.dtype[Any]:
    """Return the default dtype; raises OperandError where level 0 has a number for another."""
    if len(op.passed) > 3 and op.operand(3) is not None:
        raise OperandError(f"dtype={op.operand(3)!r}", rule=f"{op.definition.type}: dtype must be None, or a name")
    return default


@file_operator("aten::aminmax", "torch.aminmax", operands=Count(1, 3))
def extremes(op: OperatorContext) -> tuple[Expr, Expr]:
    """The smallest and the largest element, of all or along an axis."""
    axes, keep = axes_of(op), flag(op, 2, "keepdim", False)
    return min(op.x, axes, keep), max(op.x, axes, keep)
