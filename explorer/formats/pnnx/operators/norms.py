"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import flag, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.reduce import axes_of
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.elementwise.unary import absolute
from explorer.ops.manipulation.reshape import squeeze
from explorer.ops.reduction.reduce import max, min, sum
from explorer.ops.reduction.statistics import vector_norm

_INFINITE = {"inf": math.inf, "-inf": -math.inf}


@file_operator("torch.norm", "Tensor.norm", "torch.linalg.vector_norm")
def norm(op: OperatorContext) -> Expr:
    """(Σ |x|ᵖ)^(1/p) over axes."""
    op.only("dtype", None)
    order: Any = op.argument("p", op.argument("ord", 2))
    return vector_norm(op.x, _order(op, 2 if order == "fro" else order), axes_of(op, 2), op.flag("keepdim", False))


@file_operator("aten::linalg_norm", "torch.linalg.norm", operands=Count(1, 5))
def vector_or_matrix_norm(op: OperatorContext) -> Expr:
    """The norm of vectors along one axis, or of matrices along two; without an order the root of all squares."""
    x, order, axes, keep = op.x, value(op, 1, "ord", None), axes_of(op, 2), flag(op, 3, "keepdim", False)
    _check_dtype(op)
    if order is None:
        return vector_norm(x, 2, axes, keep)
    if axes is None and x.ndim > 2:
        raise OperandError(
            f"ord={order!r} of {x.type}", rule=f"{op.definition.type}: dim must say the axes, one or two"
        )
    places = tuple(range(x.ndim)) if axes is None else axes
    return (
        _matrix_norm(op, x, order, places, keep)
        if len(places) == 2
        else vector_norm(x, _order(op, order), places, keep)
    )


@file_operator("aten::linalg_matrix_norm", "torch.linalg.matrix_norm", operands=Count(1, 5))
def matrix_norm(op: OperatorContext) -> Expr:
    """The norm of matrices along two axes: fro, or the largest or smallest sum of a column (1) or row (inf)."""
    _check_dtype(op)
    return _matrix_norm(
        op, op.x, value(op, 1, "ord", "fro"), integers(op, 2, "dim", (-2, -1)), flag(op, 3, "keepdim", False)
    )


def _matrix_norm(op: OperatorContext, x: Expr, order: Any, axes: tuple[int, ...], keep: bool) -> Expr:
    places = [normalize_axis(axis, x.ndim, "matrix_norm") for axis in axes]
    size: Any = _INFINITE.get(order, order) if isinstance(order, str) else order
    if len({*places}) != 2 or not (size == "fro" or size in (1, -1, math.inf, -math.inf)):
        raise OperandError(
            f"ord={order!r}, dim={axes}",
            rule=f"{op.definition.type}: there must be two axes, and ord be fro, 1, -1, inf or -inf; others need "
            "singular values",
            fix="compute the norm in the program that reads the result",
        )
    if size == "fro":
        return vector_norm(x, 2, tuple(places), keep)
    # sums along the columns for 1, along the rows for ∞
    summed, other = places if abs(size) == 1 else places[::-1]
    result = (max if size > 0 else min)(sum(absolute(x), summed, True), other, True)
    return result if keep else squeeze(result, (summed, other))


def _order(op: OperatorContext, order: Any) -> float:
    """Return the order p of a norm of vectors; raises OperandError for what is none."""
    order = 2 if order is None else _INFINITE.get(order, order) if isinstance(order, str) else order
    if isinstance(order, bool) or not isinstance(order, (int, float)):
        raise OperandError(f"p={order!r}", rule=f"{op.definition.type}: p must be a number, fro, inf or -inf")
    return order


def _check_dtype(op: OperatorContext) -> None:
    if value(op, 4, "dtype", None) is not None:
        raise OperandError(f"dtype={value(op, 4, 'dtype')!r}", rule=f"{op.definition.type}: dtype must be None")
