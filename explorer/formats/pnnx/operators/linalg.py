"""Products of matrices and tensors."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.linalg.einsum import einsum as einstein_sum
from explorer.ops.linalg.inverse import inverse
from explorer.ops.linalg.matmul import matmul as product
from explorer.ops.manipulation.reshape import expand_dims


@file_operator("torch.matmul", "torch.bmm", "torch.mm", "aten::matmul")
def matmul(op: OperatorContext) -> Expr:
    """The matrix product of two operands."""
    return op.x @ op.tensor(1, "mat2" if op.has("mat2") else "other")


@file_operator("torch.mv", "torch.dot", "aten::mv", "aten::dot")
def vector_product(op: OperatorContext) -> Expr:
    """The product with a vector."""
    return op.x @ op.tensor(1, "vec" if op.has("vec") else "tensor")


def _scaled_sum(op: OperatorContext, first: str, second: str) -> Expr:
    result = product(op.tensor(1, first), op.tensor(2, second))
    alpha, beta = op.number("alpha", 1), op.number("beta", 1)
    result = result if alpha == 1 else result * alpha
    return (op.x if beta == 1 else op.x * beta) + result


@file_operator("torch.addmm")
def addmm(op: OperatorContext) -> Expr:
    """β · input + α · (mat1 @ mat2)."""
    return _scaled_sum(op, "mat1", "mat2")


@file_operator("torch.baddbmm")
def baddbmm(op: OperatorContext) -> Expr:
    """β · input + α · (batch1 @ batch2)."""
    return _scaled_sum(op, "batch1", "batch2")


@file_operator("torch.addmv")
def addmv(op: OperatorContext) -> Expr:
    """β · input + α · (mat @ vec)."""
    return _scaled_sum(op, "mat", "vec")


@file_operator("torch.outer", "aten::outer", "torch.ger", "aten::ger")
def outer(op: OperatorContext) -> Expr:
    """The products of all pairs of elements of two vectors."""
    x, y = op.x, op.tensor(1, "vec2")
    if x.ndim != 1 or y.ndim != 1:
        raise OperandError(
            f"operands {x.type} and {y.type}", rule=f"{op.definition.type}: both operands must be vectors"
        )
    return expand_dims(x, 1) * y


@file_operator("torch.einsum")
def einsum(op: OperatorContext) -> Expr:
    """Einstein's sum of the operands."""
    return einstein_sum(op.argument("equation"), *op.tensors())


@file_operator("torch.inverse", "torch.linalg.inv", "Tensor.inverse", "aten::inverse", "aten::linalg_inv")
def inverse_(op: OperatorContext) -> Expr:
    """The inverses of square matrices."""
    return inverse(op.x)
