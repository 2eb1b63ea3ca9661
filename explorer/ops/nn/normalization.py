"""Normalization with stored statistics."""

from __future__ import annotations

from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.registry import public
from explorer.ops.base import reshape
from explorer.ops.elementwise.unary import sqrt


@public
def batch_norm(x: Any, mean: Any, variance: Any, scale: Any = None, shift: Any = None, epsilon: float = 1e-5) -> Expr:
    """(x − mean) / √(variance + ε) · scale + shift for each channel of (N, C, …), with stored statistics."""
    operands = [x, mean, variance, *[v for v in (scale, shift) if v is not None]]
    x, mean, variance, *rest = as_operands(tuple(operands))
    y: Expr
    column = (-1, *[1] * (x.ndim - 2))

    def channels(value: Expr) -> Expr:
        return reshape(value, (value.size, *column[1:]))

    factor = 1 / sqrt(variance + epsilon)
    if scale is not None:
        factor = factor * rest.pop(0)
    y = (x - channels(mean)) * channels(factor)
    return y if shift is None else y + channels(rest.pop(0))
