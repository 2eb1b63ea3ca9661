"""Products of matrices and tensors."""

from __future__ import annotations

from functools import reduce
from typing import Annotated

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import broadcast_shapes, normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints, Names
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
def matmul(input: Expr, other: Annotated[Expr, Names("mat2", "other")]) -> Expr:
    """Return the matrix product of two operands."""
    return input @ other


@file_operator("torch.mv", "torch.dot", "aten::mv", "aten::dot")
def vector_product(input: Expr, other: Annotated[Expr, Names("vec", "tensor")]) -> Expr:
    """Return the product of a matrix or vector with a vector."""
    return input @ other


def _scaled_sum(x: Expr, result: Expr, beta: float, alpha: float) -> Expr:
    """Return β · x + α · result; if β is 0, x is ignored even if it contains NaN."""
    result = result if alpha == 1 else result * alpha
    return result if beta == 0 else (x if beta == 1 else x * beta) + result


@file_operator("torch.addmm")
def addmm(input: Expr, mat1: Expr, mat2: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    """Return β · input + α · (mat1 @ mat2)."""
    return _scaled_sum(input, mat1 @ mat2, beta, alpha)


@file_operator("torch.baddbmm")
def baddbmm(input: Expr, batch1: Expr, batch2: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    """Return β · input + α · (batch1 @ batch2)."""
    return _scaled_sum(input, batch1 @ batch2, beta, alpha)


@file_operator("torch.addmv")
def addmv(input: Expr, mat: Expr, vec: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    """Return β · input + α · (mat @ vec)."""
    return _scaled_sum(input, mat @ vec, beta, alpha)


@file_operator("aten::addbmm", "torch.addbmm")
def addbmm(input: Expr, batch1: Expr, batch2: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    """Return β · input + α · Σ batch1[i] @ batch2[i]."""
    return _scaled_sum(input, einstein_sum("nij,njk->ik", batch1, batch2), beta, alpha)


@file_operator("aten::addr", "torch.addr")
def addr(input: Expr, vec1: Expr, vec2: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    """Return β · input + α · outer(vec1, vec2)."""
    return _scaled_sum(input, einstein_sum("i,j->ij", vec1, vec2), beta, alpha)


@file_operator("torch.outer", "aten::outer", "torch.ger", "aten::ger")
def outer(input: Expr, vec2: Expr) -> Expr:
    """Return the outer product of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise OperandError(f"operands {input.type} and {vec2.type}", rule="both operands must be vectors")
    return expand_dims(input, 1) * vec2


@file_operator("torch.einsum")
def einsum(*operands: Expr, equation: str) -> Expr:
    """Return the Einstein summation of the operands."""
    if "..." not in equation and any(
        len(letters.strip()) < x.ndim
        for letters, x in zip(equation.partition("->")[0].split(","), operands, strict=False)
    ):
        raise OperandError(
            f"equation={equation!r} for {', '.join([str(x.type) for x in operands])}",
            rule="the equation must have a letter for each axis, because pnnx omits an ellipsis (...)",
            fix='write all letters in the module ("bij,bjk->bik" for "...ij,...jk->...ik") and export again, or open '
            "the module: ex.open(module, inputs)",
        )
    return einstein_sum(equation, *operands)


@file_operator("torch.inverse", "torch.linalg.inv", "Tensor.inverse", "aten::inverse", "aten::linalg_inv")
def inverse_(input: Annotated[Expr, Names("input", "A")]) -> Expr:
    """Return the inverses of square matrices."""
    return inverse(input)


@file_operator("aten::tensordot", "torch.tensordot")
def tensordot_(input: Expr, other: Expr, dims_self: Ints, dims_other: Ints) -> Expr:
    """Sum products over the axes ``dims_self`` of the first operand and ``dims_other`` of the second operand."""
    return tensordot(input, other, (dims_self, dims_other))


@file_operator("aten::inner", "torch.inner")
def inner(input: Expr, other: Expr) -> Expr:
    """Sum the products of both operands over their last axes."""
    return tensordot(input, other, ((-1,), (-1,))) if input.ndim and other.ndim else input * other


@file_operator("aten::linalg_vecdot", "torch.linalg.vecdot", "aten::vdot", "torch.vdot")
def vecdot(x: Annotated[Expr, Names("x", "input")], y: Annotated[Expr, Names("y", "other")], dim: int = -1) -> Expr:
    """Return the dot products of vectors along the axis ``dim``."""
    if "c" in (x.dtype.kind, y.dtype.kind):
        raise OperandError(f"vectors {x.type} and {y.type}", rule="the vectors must be real")
    return _vecdot(x, y, dim)


@rounded_once
def _vecdot(x: Expr, y: Expr, axis: int) -> Expr:
    terms = x * y
    # NumPy accumulates narrow integers in int64
    return cast(sum(terms, normalize_axis(axis, terms.ndim, "vecdot")), terms.dtype)


@file_operator("aten::kron", "torch.kron")
def kron(input: Expr, other: Expr) -> Expr:
    """Return the Kronecker product."""
    rank = max(input.ndim, other.ndim)
    first, second = ((*[1] * (rank - each.ndim), *each.shape) for each in (input, other))
    rows = reshape(input, tuple([size for each in first for size in (each, 1)]))
    columns = reshape(other, tuple([size for each in second for size in (1, each)]))
    return reshape(rows * columns, tuple([a * b for a, b in zip(first, second, strict=True)]))


@file_operator("aten::bilinear", "F.bilinear")
def bilinear(input1: Expr, input2: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    """Return x1ᵀ · W · x2 for each matrix W in ``weight``, plus ``bias``."""
    result = einstein_sum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


@file_operator("torch.cross", "aten::cross")
def cross(input: Expr, other: Expr, dim: int | None = None) -> Expr:
    """Return cross products along the axis ``dim`` of length 3, by default the first such axis."""
    shape = broadcast_shapes(input.shape, other.shape) or ()
    return _cross(input, other, shape.index(3) if dim is None and 3 in shape else dim)


@file_operator("torch.linalg.cross", "aten::linalg_cross")
def linalg_cross(input: Expr, other: Expr, dim: int = -1) -> Expr:
    """Return cross products along the axis ``dim`` of length 3."""
    return _cross(input, other, dim)


def _cross(x: Expr, y: Expr, dim: int | None) -> Expr:
    shape = broadcast_shapes(x.shape, y.shape)
    axis = -1 if not shape or dim is None else normalize_axis(dim, len(shape), "cross")
    if shape is None or axis < 0 or shape[axis] != 3:
        raise OperandError(
            f"vectors {x.type} and {y.type}, dim={dim!r}",
            rule="the vectors must broadcast together and have three elements along the axis",
        )
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    return roll(x, -1, axis) * roll(y, -2, axis) - roll(x, -2, axis) * roll(y, -1, axis)


@file_operator("aten::linalg_multi_dot", "torch.linalg.multi_dot", "aten::chain_matmul")
def multi_dot(*matrices: Expr) -> Expr:
    """Return the product of a chain of matrices, multiplied from left to right."""
    return reduce(product, matrices)


@file_operator("aten::linalg_matrix_power", "torch.linalg.matrix_power", "aten::matrix_power")
def matrix_power(input: Annotated[Expr, Names("input", "A")], n: int) -> Expr:
    """Return the n-th power of square matrices; a negative n gives powers of their inverses."""
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise OperandError(f"an operand {input.type}", rule="the operand must consist of square matrices")
    if n == 0:
        claim_constant("a unit matrix", input.shape[-1] ** 2)
        return broadcast_to(tensor(np.eye(input.shape[-1], dtype=input.dtype)), input.shape)
    square, result = inverse(input) if n < 0 else input, None
    # exponentiation by squaring, in log₂(n) steps
    for bit in reversed(f"{abs(n):b}"):
        if bit == "1":
            result = square if result is None else product(result, square)
        square = product(square, square)
    assert result is not None
    return result
