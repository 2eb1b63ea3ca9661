"""Products of matrices and tensors."""

from __future__ import annotations

from functools import reduce

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import broadcast_shapes, normalize_axis
from explorer.formats.pnnx.operators.base.arguments import integer, integers, number, tensor_or_none, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import broadcast_to, cast
from explorer.ops.linalg.einsum import einsum as einstein_sum
from explorer.ops.linalg.inverse import inverse
from explorer.ops.linalg.matmul import matmul as product
from explorer.ops.linalg.tensordot import tensordot
from explorer.ops.manipulation.rearrange import roll
from explorer.ops.manipulation.reshape import expand_dims, reshape
from explorer.ops.reduction.reduce import sum


@file_operator("torch.matmul", "torch.bmm", "torch.mm", "aten::matmul")
def matmul(op: OperatorContext) -> Expr:
    """The matrix product of two operands."""
    return op.x @ op.tensor(1, "mat2" if op.has("mat2") else "other")


@file_operator("torch.mv", "torch.dot", "aten::mv", "aten::dot")
def vector_product(op: OperatorContext) -> Expr:
    """The product with a vector."""
    return op.x @ op.tensor(1, "vec" if op.has("vec") else "tensor")


def _scaled_sum(op: OperatorContext, result: Expr) -> Expr:
    """Return β · input + α · result; with β = 0 what the input holds does not count, be it NaN."""
    x, beta, alpha = op.x, number(op, 3, "beta", 1), number(op, 4, "alpha", 1)
    result = result if alpha == 1 else result * alpha
    return result if beta == 0 else (x if beta == 1 else x * beta) + result


@file_operator("torch.addmm")
def addmm(op: OperatorContext) -> Expr:
    """β · input + α · (mat1 @ mat2)."""
    return _scaled_sum(op, product(op.tensor(1, "mat1"), op.tensor(2, "mat2")))


@file_operator("torch.baddbmm")
def baddbmm(op: OperatorContext) -> Expr:
    """β · input + α · (batch1 @ batch2)."""
    return _scaled_sum(op, product(op.tensor(1, "batch1"), op.tensor(2, "batch2")))


@file_operator("torch.addmv")
def addmv(op: OperatorContext) -> Expr:
    """β · input + α · (mat @ vec)."""
    return _scaled_sum(op, product(op.tensor(1, "mat"), op.tensor(2, "vec")))


@file_operator("aten::addbmm", "torch.addbmm", operands=Count(3, 5))
def addbmm(op: OperatorContext) -> Expr:
    """β · input + α · the sum of the products batch1 @ batch2."""
    return _scaled_sum(op, einstein_sum("nij,njk->ik", op.tensor(1, "batch1"), op.tensor(2, "batch2")))


@file_operator("aten::addr", "torch.addr", operands=Count(3, 5))
def addr(op: OperatorContext) -> Expr:
    """β · input + α · the products of all pairs of elements of two vectors."""
    return _scaled_sum(op, einstein_sum("i,j->ij", op.tensor(1, "vec1"), op.tensor(2, "vec2")))


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
    equation, operands = op.argument("equation"), op.tensors()
    entering = equation.partition("->")[0].split(",") if isinstance(equation, str) else []
    if "..." not in str(equation) and any(
        len(letters.strip()) < x.ndim for letters, x in zip(entering, operands, strict=False)
    ):
        raise OperandError(
            f"equation={equation!r} for {', '.join([str(x.type) for x in operands])}",
            rule="torch.einsum: there must be a letter for each axis; pnnx leaves out the ... of an equation",
            fix='write all letters in the module ("bij,bjk->bik" for "...ij,...jk->...ik") and export again, or open '
            "the module: ex.open(module, inputs)",
        )
    return einstein_sum(equation, *operands)


@file_operator("torch.inverse", "torch.linalg.inv", "Tensor.inverse", "aten::inverse", "aten::linalg_inv")
def inverse_(op: OperatorContext) -> Expr:
    """The inverses of square matrices."""
    return inverse(op.x)


@file_operator("aten::tensordot", "torch.tensordot", operands=Count(2, 4))
def tensordot_(op: OperatorContext) -> Expr:
    """Products summed over axes of both operands."""
    return tensordot(op.x, op.tensor(1, "other"), (integers(op, 2, "dims_self"), integers(op, 3, "dims_other")))


@file_operator("aten::inner", "torch.inner", operands=Count(1, 2))
def inner(op: OperatorContext) -> Expr:
    """Products summed over the last axis of both operands."""
    x, y = op.x, op.tensor(1, "other")
    return tensordot(x, y, ((-1,), (-1,))) if x.ndim and y.ndim else x * y


@file_operator("aten::linalg_vecdot", "torch.linalg.vecdot", "aten::vdot", "torch.vdot", operands=Count(1, 3))
def vecdot(op: OperatorContext) -> Expr:
    """Products of vectors along an axis."""
    x, y = op.x, op.tensor(1, "y" if "vecdot" in op.definition.type else "other")
    if "c" in (x.dtype.kind, y.dtype.kind):
        raise OperandError(
            f"vectors {x.type} and {y.type}", rule=f"{op.definition.type}: the vectors must be of real numbers"
        )
    return _vecdot(x, y, integer(op, 2, "dim", -1))


@rounded_once
def _vecdot(x: Expr, y: Expr, axis: int) -> Expr:
    terms = x * y
    # NumPy adds short whole numbers in long ones
    return cast(sum(terms, normalize_axis(axis, terms.ndim, "vecdot")), terms.dtype)


@file_operator("aten::kron", "torch.kron", operands=Count(1, 2))
def kron(op: OperatorContext) -> Expr:
    """All products of elements: each element of the first times the whole second, side by side."""
    x, y = op.x, op.tensor(1, "other")
    rank = max(x.ndim, y.ndim)
    first, second = ((*[1] * (rank - each.ndim), *each.shape) for each in (x, y))
    rows = reshape(x, tuple([size for each in first for size in (each, 1)]))
    columns = reshape(y, tuple([size for each in second for size in (1, each)]))
    return reshape(rows * columns, tuple([a * b for a, b in zip(first, second, strict=True)]))


@file_operator("aten::bilinear", "F.bilinear", operands=Count(3, 4))
def bilinear(op: OperatorContext) -> Expr:
    """x1ᵀ · W · x2 for each matrix W of the weight, and a bias."""
    weight, bias = op.tensor(2, "weight"), tensor_or_none(op, 3, "bias")
    result = einstein_sum("...i,oij,...j->...o", op.tensor(0, "input1"), weight, op.tensor(1, "input2"))
    return result if bias is None else result + bias


@file_operator("torch.cross", "aten::cross", "torch.linalg.cross", "aten::linalg_cross", operands=Count(1, 3))
def cross(op: OperatorContext) -> Expr:
    """The vectors that stand upright on pairs of vectors along an axis of three elements."""
    x, y = op.x, op.tensor(1, "other")
    shape = broadcast_shapes(x.shape, y.shape)
    dim = value(op, 2, "dim", -1 if "linalg" in op.definition.type else None)
    # torch's older function takes the first axis of three elements
    dim = (shape or ()).index(3) if dim is None and 3 in (shape or ()) else dim
    axis = normalize_axis(dim, len(shape), "cross") if shape and type(dim) is int else -1
    if shape is None or axis < 0 or shape[axis] != 3:
        raise OperandError(
            f"vectors {x.type} and {y.type}, dim={dim!r}",
            rule=f"{op.definition.type}: the vectors must broadcast together and have three elements along the axis",
        )
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    return roll(x, -1, axis) * roll(y, -2, axis) - roll(x, -2, axis) * roll(y, -1, axis)


@file_operator("aten::linalg_multi_dot", "torch.linalg.multi_dot", "aten::chain_matmul")
def multi_dot(op: OperatorContext) -> Expr:
    """The product of a chain of matrices, from left to right."""
    return reduce(product, op.tensors())


@file_operator("aten::linalg_matrix_power", "torch.linalg.matrix_power", "aten::matrix_power", operands=Count(1, 2))
def matrix_power(op: OperatorContext) -> Expr:
    """Square matrices times themselves, or the inverses of them for a power below 0."""
    x, power = op.x, integer(op, 1, "n")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise OperandError(f"an operand {x.type}", rule=f"{op.definition.type}: the operand must hold square matrices")
    if power == 0:
        claim_constant("a unit matrix", x.shape[-1] ** 2)
        return broadcast_to(tensor(np.eye(x.shape[-1], dtype=x.dtype)), x.shape)
    square, result = inverse(x) if power < 0 else x, None
    # as many products as the power has binary digits
    for bit in reversed(f"{abs(power):b}"):
        if bit == "1":
            result = square if result is None else product(result, square)
        square = product(square, square)
    assert result is not None
    return result
