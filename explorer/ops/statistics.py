"""Normalization by statistics of the operand itself."""

from __future__ import annotations

from typing import Any

from explorer.core.expr import Expr
from explorer.core.operation import as_operands
from explorer.core.registry import public
from explorer.ops.elementwise import square
from explorer.ops.reduce import mean
from explorer.ops.transcendental import rsqrt


@public
def layer_norm(x: Any, scale: Any = None, shift: Any = None, *, axes: int = 1, epsilon: float = 1e-5) -> Expr:
    """(x − mean) / √(variance + ε) · scale + shift over the last ``axes`` axes; scale and shift have their shape."""
    (x,) = as_operands((x,))
    last = tuple(range(x.ndim - axes, x.ndim))
    centred = x - mean(x, last, keepdims=True)
    y: Expr = centred * rsqrt(mean(square(centred), last, keepdims=True) + epsilon)
    y = y if scale is None else y * scale
    return y if shift is None else y + shift
