"""The general product of matrices (BLAS: gemm), by the attributes that operators of several domains have alike."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.net.operators.context import OperatorContext


def general_product(op: OperatorContext, a: Expr, b: Expr, c: Expr | None) -> Expr:
    """Return alpha · A · B + beta · C, with A and B transposed where ``transA`` and ``transB`` say so.

    Where beta is 0, C is left out.
    """
    y = (a.T if op.integer("transA", 0) else a) @ (b.T if op.integer("transB", 0) else b)
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    # exporters always write both factors, and most often 1: no node is recorded for that
    y = y if alpha == 1 else alpha * y
    if c is None or beta == 0:  # C is not read, so an infinity in it makes no NaN, as in BLAS
        return y
    return y + (c if beta == 1 else beta * c)
