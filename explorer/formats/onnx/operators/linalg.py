"""Matrix products."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.formats.common.known_inputs import members, optional, required
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.linalg.einsum import einsum


@operator("MatMul")
def matmul(op: OperatorContext) -> Expr:
    """The matrix product of two operands."""
    return required(op, "A") @ required(op, "B")


@operator("Gemm")
def gemm(op: OperatorContext) -> Expr:
    """alpha · A · B + beta · C; A and B may be transposed."""
    return general_product(op, required(op, "A"), required(op, "B"), optional(op, "C"))


def general_product(op: OperatorContext, a: Expr, b: Expr, c: Expr | None) -> Expr:
    """Return alpha · A · B + beta · C by an operator's attributes."""
    y = (a.T if op.integer("transA", 0) else a) @ (b.T if op.integer("transB", 0) else b)
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    # exporters always write both factors, and most often 1: no node is recorded for that
    y = y if alpha == 1 else alpha * y
    if c is None:
        return y
    return y + (c if beta == 1 else beta * c)


@operator("Einsum")
def einsum_(op: OperatorContext) -> Expr:
    """The sum that ``equation`` writes; pairs of operands become matrix products."""
    return einsum(str(op.argument("equation")), *members(op, "Inputs"))
