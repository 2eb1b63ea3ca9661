"""The general matrix product (BLAS gemm), used by operators of several domains."""

from __future__ import annotations

from explorer.core.ir.expr import Expr


def general_product(a: Expr, b: Expr, c: Expr | None, *, alpha: float, beta: float, transA: int, transB: int) -> Expr:
    """Return ``alpha`` · A · B + ``beta`` · C, with A and B optionally transposed; C is ignored if ``beta`` is 0."""
    y = (a.T if transA else a) @ (b.T if transB else b)
    # exporters always write both factors, usually 1, for which no node is recorded
    y = y if alpha == 1 else alpha * y
    if c is None or beta == 0:  # as in BLAS, C is not read, so infinities in it do not become NaN
        return y
    return y + (c if beta == 1 else beta * c)
