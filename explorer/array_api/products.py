"""Functions of linear algebra in the standard's main namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.core.array_api.numpy_compositions import vecdot as _vecdot
from explorer.core.ir.expr import Expr
from explorer.core.registry import functions

__all__ = [
    "matmul",
    "matrix_transpose",
    "tensordot",
    "vecdot",
]


def matmul(x1: Any, x2: Any, /) -> Expr:
    """Return the matrix product."""
    result: Expr = functions["matmul"](x1, x2)
    return result


def matrix_transpose(x: Expr, /) -> Expr:
    """Exchange the last two axes."""
    return x.mT


def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Expr:
    """Return the sums of products over pairs of axes, or over the last axes of ``x1`` and the first of ``x2``."""
    result: Expr = functions["tensordot"](x1, x2, axes)
    return result


def vecdot(x1: Expr, x2: Expr, /, *, axis: int = -1) -> Expr:
    """Return the sums of products along an axis, of the complex conjugate of ``x1`` and of ``x2``."""
    result: Expr = _vecdot(x1, x2, axis)
    return result
