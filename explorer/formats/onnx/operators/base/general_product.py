"""The general product of matrices (BLAS: gemm), which operators of several domains have."""

from __future__ import annotations

from explorer.core.ir.expr import Expr


def general_product(a: Expr, b: Expr, c: Expr | None, *, alpha: float, beta: float, transA: int, transB: int) -> Expr:
    """Return alpha · A · B + beta · C, with A and B transposed where that is asked; C is left out where beta is 0."""
    y = (a.T if transA else a) @ (b.T if transB else b)
    # exporters always write both factors, and most often 1: no node is recorded for that
    y = y if alpha == 1 else alpha * y
    if c is None or beta == 0:  # C is not read, so an infinity in it makes no NaN, as in BLAS
        return y
    return y + (c if beta == 1 else beta * c)
