"""Matrix products."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.general_product import general_product
from explorer.formats.onnx.operators.base.operator_inputs import First
from explorer.formats.onnx.operators.base.table import operator
from explorer.ops.linalg.einsum import einsum
from explorer.ops.linalg.inverse import inverse


@operator("MatMul")
def matmul(A: Expr, B: Expr) -> Expr:
    """Return the matrix product of two operands."""
    return A @ B


@operator("Gemm")
def gemm(
    A: Expr,
    B: Expr,
    C: Expr | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Expr:
    """Return ``alpha`` · A · B + ``beta`` · C; A and B may be transposed."""
    return general_product(A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Einsum")
def einsum_(*Inputs: Expr, equation: str) -> Expr:
    """Return the sum of products given by ``equation``; pairs of operands become matrix products."""
    return einsum(equation, *Inputs)


@operator("com.microsoft.Inverse")
def inverse_(X: First) -> Expr:
    """Return the inverses of square matrices."""
    return inverse(X)
