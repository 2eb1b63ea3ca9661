"""The general matrix product (BLAS gemm), used by operators of several domains."""

from __future__ import annotations

from explorer.core.ir.expr import Expr


def general_product(a: Expr, b: Expr, c: Expr | None, *, alpha: float, beta: float, transA: int, transB: int) -> Expr:
    """Return ``alpha`` · A · B + ``beta`` · C, with A and B optionally transposed; C is ignored if ``beta`` is 0."""
    y = (a.T if transA else a) @ (b.T if transB else b)
    # exporters always write both factors, but a factor of 1 needs no node
    y = y if alpha == 1 else alpha * y
    if c is None or beta == 0:  # as in BLAS, so that infinities in C do not become NaN
        return y
    return y + (c if beta == 1 else beta * c)
