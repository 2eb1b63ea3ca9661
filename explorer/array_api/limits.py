"""Elementwise functions of the standard whose dtypes differ from those of the operations."""

from __future__ import annotations

from typing import Any

from explorer.core.array_api.numpy_compositions import COMPOSED
from explorer.core.ir.expr import Expr
from explorer.core.registry import functions

__all__ = ["clip", "round"]


def clip(x: Expr, /, min: Any = None, max: Any = None) -> Expr:
    """Limit the elements to at least ``min`` and at most ``max``; None: no limit."""
    result: Expr = x if min is None and max is None else functions["clip"](x, min, max)
    return result


def round(x: Expr, /) -> Expr:
    """Round to the nearest integer, and to the even one between two integers; integers are unchanged."""
    result: Expr = COMPOSED["round"](x)
    return result
