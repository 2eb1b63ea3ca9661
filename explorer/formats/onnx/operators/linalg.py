"""Matrix products."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.general_product import general_product
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import members, optional, required
from explorer.ops.linalg.einsum import einsum
from explorer.ops.linalg.inverse import inverse


@operator("MatMul")
def matmul(op: OperatorContext) -> Expr:
    """The matrix product of two operands."""
    return required(op, "A") @ required(op, "B")


@operator("Gemm")
def gemm(op: OperatorContext) -> Expr:
    """alpha · A · B + beta · C; A and B may be transposed."""
    return general_product(op, required(op, "A"), required(op, "B"), optional(op, "C"))


@operator("Einsum")
def einsum_(op: OperatorContext) -> Expr:
    """The sum that ``equation`` writes; pairs of operands become matrix products."""
    return einsum(str(op.argument("equation")), *members(op, "Inputs"))


@operator("com.microsoft.Inverse")
def inverse_(op: OperatorContext) -> Expr:
    """The inverses of square matrices."""
    return inverse(required(op, "input 0"))
