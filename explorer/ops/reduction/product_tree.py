"""Tree of products: for each element of a row the product of all others, for the gradient of ``Prod``."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.ops.creation.constants import full


def products_of_others(x: Expr) -> Expr:
    """Record for each element along the last axis the product of the others: a tree of products, no quotient.

    y / x would be NaN where x is 0. Upwards the tree multiplies halves pairwise; downwards, each half's product of
    others is its parent's times the other half. That takes 3 · n products, in a number of nodes that grows with log n.
    """
    levels = [x]
    while levels[-1].shape[-1] > 1:
        first, second = _halves(levels[-1])
        levels.append(first * second)
    products = full(levels.pop().shape, 1, x.dtype, x.device)
    for level in reversed(levels):
        first, second = _halves(level)
        # a half's elements are multiplied with their partners in the other half; the 1 that was appended is cut off
        both = function("concatenate")((products * second, products * first), -1)
        products = both[..., : level.shape[-1]]
    return products


def _halves(x: Expr) -> tuple[Expr, Expr]:
    """Split the last axis into halves, the second with a 1 at its end if the length is odd."""
    middle = (x.shape[-1] + 1) // 2
    second = x[..., middle:]
    if x.shape[-1] % 2:
        second = function("concatenate")((second, full((*x.shape[:-1], 1), 1, x.dtype, x.device)), -1)
    return x[..., :middle], second
