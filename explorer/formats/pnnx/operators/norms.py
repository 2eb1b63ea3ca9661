"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Annotated, Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints, Names
from explorer.ops.elementwise.unary import absolute
from explorer.ops.manipulation.reshape import squeeze
from explorer.ops.reduction.reduce import max, min, sum
from explorer.ops.reduction.statistics import vector_norm

_INFINITE = {"inf": math.inf, "-inf": -math.inf}
Order = float | str | None


@file_operator("torch.norm", "Tensor.norm", "torch.linalg.vector_norm")
def norm(
    input: Annotated[Expr, Names("input", "x")],
    p: Annotated[Order, Names("p", "ord")] = 2,
    dim: Ints | None = None,
    keepdim: bool = False,
    *,
    dtype: None = None,
) -> Expr:
    """Return the p-norms (Σ |x|ᵖ)^(1/p) over the axes ``dim``."""
    return vector_norm(input, _order(2 if p == "fro" else p), dim or None, keepdim)


@file_operator("aten::linalg_norm", "torch.linalg.norm")
def vector_or_matrix_norm(
    input: Annotated[Expr, Names("input", "A")],
    ord: Order = None,
    dim: Ints | None = None,
    keepdim: bool = False,
    dtype: None = None,
) -> Expr:
    """Return norms of vectors along one axis, or of matrices along two axes.

    If ``ord`` is None, return the root of the sum of squares.
    """
    if ord is None:
        return vector_norm(input, 2, dim or None, keepdim)
    if not dim and input.ndim > 2:
        raise OperandError(f"ord={ord!r} of {input.type}", rule="dim must be one or two axes")
    axes = dim or tuple(range(input.ndim))
    if len(axes) == 2:
        return matrix_norm(input, ord, axes, keepdim)
    return vector_norm(input, _order(ord), axes, keepdim)


@file_operator("aten::linalg_matrix_norm", "torch.linalg.matrix_norm")
def matrix_norm(
    input: Annotated[Expr, Names("input", "A")],
    ord: Order = "fro",
    dim: Ints = (-2, -1),
    keepdim: bool = False,
    dtype: None = None,
) -> Expr:
    """Return norms of matrices along two axes.

    ``ord`` is fro, 1 (the largest column sum), inf (the largest row sum), or −1 or −inf (the smallest sums).
    """
    axes = [normalize_axis(axis, input.ndim, "matrix_norm") for axis in dim]
    size: Any = _INFINITE.get(ord, ord) if isinstance(ord, str) else ord
    if len({*axes}) != 2 or not (size == "fro" or size in (1, -1, math.inf, -math.inf)):
        raise OperandError(
            f"ord={ord!r}, dim={dim}",
            rule="dim must be two axes, and ord one of fro, 1, -1, inf, -inf; other norms need singular values",
            fix="compute the norm outside of the net",
        )
    if size == "fro":
        return vector_norm(input, 2, tuple(axes), keepdim)
    # column sums for 1, row sums for ∞
    summed, other = axes if abs(size) == 1 else axes[::-1]
    result = (max if size > 0 else min)(sum(absolute(input), summed, True), other, True)
    return result if keepdim else squeeze(result, (summed, other))


def _order(order: Order) -> float:
    """Return the order p of a vector norm; raise OperandError if ``order`` is an unknown name."""
    value = 2 if order is None else _INFINITE.get(order, order) if isinstance(order, str) else order
    if isinstance(value, str):
        raise OperandError(f"p={order!r}", rule="p must be a number, fro, inf or -inf")
    return value
