"""Shrinking activations: elements near 0, or below a limit, are reduced or replaced; NaN stays NaN."""

from __future__ import annotations

from typing import Any

from explorer.core.ir.expr import Expr, as_operands
from explorer.core.registry import public
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, tanh

__all__ = ["hardshrink", "softshrink", "tanhshrink", "threshold"]


@public
def threshold(x: Any, limit: float, value: float) -> Expr:
    """Keep the elements above ``limit`` and replace the others with ``value``; NaN stays NaN.

    The gradient at the limit is 0.

    >>> ex.evaluate(ex.threshold(np.array([-1.0, 0.5, 2.0]), 0.6, 0.0))
    array([0., 0., 2.])
    """
    (x,) = as_operands((x,))
    # test ≤ instead of >, because comparisons with NaN are false, and NaN must be kept
    return where(x <= limit, value, x)


@public
def softshrink(x: Any, width: float = 0.5) -> Expr:
    """Move the elements of ``x`` towards 0 by ``width``; elements within ±width become 0, and NaN stays NaN.

    The gradient at ±width is 0.

    >>> ex.evaluate(ex.softshrink(np.array([-1.0, 0.2, 2.0])))
    array([-0.5,  0. ,  1.5])
    """
    (x,) = as_operands((x,))
    # test ≤ instead of >, so that NaN is kept
    return where(absolute(x) <= width, 0, where(x > 0, x - width, x + width))


@public
def hardshrink(x: Any, width: float = 0.5) -> Expr:
    """Keep elements outside ±width and set the others to 0; NaN stays NaN. The gradient at ±width is 0.

    >>> ex.evaluate(ex.hardshrink(np.array([-1.0, 0.2, 2.0])))
    array([-1.,  0.,  2.])
    """
    (x,) = as_operands((x,))
    return where(absolute(x) <= width, 0, x)


@public
def tanhshrink(x: Any) -> Expr:
    """Compute x − tanh x elementwise.

    >>> ex.evaluate(ex.tanhshrink(np.array([-1.0, 0.0, 1.0]))).round(3)
    array([-0.238,  0.   ,  0.238])
    """
    (x,) = as_operands((x,))
    y: Expr = x - tanh(x)
    return y
