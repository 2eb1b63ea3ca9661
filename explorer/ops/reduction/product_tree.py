"""Product tree that computes the product of all other elements of a row, for the gradient of ``Prod``."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.ops.creation.constants import full


def products_of_others(x: Expr) -> Expr:
    """Record, for each element along the last axis, the product of the other elements.

    The quotient y / x would be NaN for x = 0. Going up, the tree multiplies halves pairwise. Going down, it multiplies
    each parent's result by the other half. This needs 3 · n products and O(log n) nodes.
    """
    levels = [x]
    while levels[-1].shape[-1] > 1:
        first, second = _halves(levels[-1])
        levels.append(first * second)
    products = full(levels.pop().shape, 1, x.dtype, x.device)
    for level in reversed(levels):
        first, second = _halves(level)
        # multiply each half's elements by their partners in the other half, and remove the appended 1
        both = function("concatenate")((products * second, products * first), -1)
        products = both[..., : level.shape[-1]]
    return products


def _halves(x: Expr) -> tuple[Expr, Expr]:
    """Split the last axis into halves; a 1 is appended to the second half if the length is odd."""
    middle = (x.shape[-1] + 1) // 2
    second = x[..., middle:]
    if x.shape[-1] % 2:
        second = function("concatenate")((second, full((*x.shape[:-1], 1), 1, x.dtype, x.device)), -1)
    return x[..., :middle], second
