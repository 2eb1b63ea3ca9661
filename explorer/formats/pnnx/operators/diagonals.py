"""Diagonals of matrices, diagonal matrices, and triangular parts."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.linalg.einsum import einsum
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.rearrange import moveaxis, tril, triu
from explorer.ops.manipulation.reshape import expand_dims, reshape


@file_operator("aten::diagonal", "torch.diagonal", "Tensor.diagonal")
def diagonal(input: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    """Return the diagonals of the matrices along ``dim1`` and ``dim2``, as the last axis."""
    return _diagonal(input, offset, dim1, dim2)


@file_operator("torch.diag", "Tensor.diag", "aten::diag")
def diag(input: Expr, diagonal: int = 0) -> Expr:
    """Return a matrix with a vector as its diagonal, or the diagonal of a matrix."""
    if input.ndim not in (1, 2):
        raise OperandError(f"an operand {input.type}", rule="the operand must be a vector or a matrix")
    return _matrix(input, diagonal, 0, 1) if input.ndim == 1 else _diagonal(input, diagonal, 0, 1)


@file_operator("aten::diag_embed", "torch.diag_embed", "Tensor.diag_embed")
def diag_embed(input: Expr, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Expr:
    """Return matrices along the new axes ``dim1`` and ``dim2``, with diagonals from the last axis of ``input``."""
    return _matrix(input, offset, dim1, dim2)


@file_operator("aten::diagflat", "torch.diagflat")
def diagflat(input: Expr, offset: int = 0) -> Expr:
    """Return a matrix with all elements of ``input`` as its diagonal."""
    return _matrix(reshape(input, (input.size,)), offset, 0, 1)


@file_operator("torch.tril", "Tensor.tril", "aten::tril")
def tril_(input: Expr, diagonal: int = 0) -> Expr:
    """Return matrices with zeros above the diagonal with index ``diagonal``."""
    return tril(input, diagonal)


@file_operator("torch.triu", "Tensor.triu", "aten::triu")
def triu_(input: Expr, diagonal: int = 0) -> Expr:
    """Return matrices with zeros below the diagonal with index ``diagonal``."""
    return triu(input, diagonal)


@file_operator("aten::trace")
def trace(input: Expr) -> Expr:
    """Return the sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise OperandError(f"an operand {input.type}", rule="the operand must be a matrix")
    size = min(input.shape)
    return einsum("ii->", input[:size, :size])


def _diagonal(x: Expr, offset: int, first: int, second: int) -> Expr:
    rows, columns = _axes(x.ndim, first, second)
    matrices = moveaxis(x, (rows, columns), (-2, -1))
    height, width = matrices.shape[-2:]
    start, count = (
        (offset, min(height, width - offset)) if offset > 0 else (-offset * width, min(height + offset, width))
    )
    flat = reshape(matrices, (*matrices.shape[:-2], height * width))
    # in row-major order, every (width + 1)-th element is on the diagonal
    end = start + max(count - 1, -1) * (width + 1) + 1
    return flat[(..., slice(start, end, width + 1) if count > 0 else slice(0, 0))]


def _matrix(x: Expr, offset: int, first: int, second: int) -> Expr:
    if not x.ndim:
        raise OperandError(f"an operand {x.type}", rule="the operand must have at least one axis")
    rows, columns = _axes(x.ndim + 1, first, second)
    size = x.shape[-1] + abs(offset)
    claim_constant("elements of a diagonal matrix", size * size)
    longer = padded(x, (*[(0, 0)] * (x.ndim - 1), (0, abs(offset))))
    # element i is in row i if offset ≥ 0, else in column i
    vectors = expand_dims(longer, -1 if offset >= 0 else -2)
    matrices = where(np.eye(size, k=offset, dtype=bool), vectors, 0)
    return moveaxis(matrices, (-2, -1), (rows, columns))


def _axes(rank: int, first: int, second: int) -> tuple[int, int]:
    axes = normalize_axis(first, rank, "diagonal"), normalize_axis(second, rank, "diagonal")
    if axes[0] == axes[1]:
        raise OperandError(f"dim1={first}, dim2={second}", rule="the axes must be different")
    return axes
