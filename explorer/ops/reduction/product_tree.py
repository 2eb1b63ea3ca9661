"""Product tree for the gradient of ``Prod``: for each element of a row, the product of the other elements."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.ops.creation.constants import full


def products_of_others(x: Expr) -> Expr:
    """Record, for each element along the last axis, the product of the other elements.

    Dividing the whole product by x would give NaN for x = 0, so a tree of products is used. From the leaves to the
    root, the two halves of each level are multiplied. From the root to the leaves, the result for one half is the
    parent's result times the other half. This needs 3 · n multiplications and O(log n) nodes.
    """
    levels = [x]
    while levels[-1].shape[-1] > 1:
        first, second = _halves(levels[-1])
        levels.append(first * second)
    products = full(levels.pop().shape, 1, x.dtype, x.device)
    for level in reversed(levels):
        first, second = _halves(level)
        # multiply the results for each half by the elements of the other half, and remove the appended 1
        both = function("concatenate")((products * second, products * first), -1)
        products = both[..., : level.shape[-1]]
    return products


def _halves(x: Expr) -> tuple[Expr, Expr]:
    """Split the last axis of ``x`` into two halves; if its length is odd, a 1 is appended to the second half."""
    middle = (x.shape[-1] + 1) // 2
    second = x[..., middle:]
    if x.shape[-1] % 2:
        second = function("concatenate")((second, full((*x.shape[:-1], 1), 1, x.dtype, x.device)), -1)
    return x[..., :middle], second
