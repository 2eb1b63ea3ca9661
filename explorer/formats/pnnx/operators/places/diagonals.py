"""Diagonals of matrices, and matrices of diagonals."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import integer
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.rearrange import moveaxis
from explorer.ops.manipulation.reshape import expand_dims, reshape


@file_operator("aten::diagonal", "torch.diagonal", "Tensor.diagonal", operands=Count(1, 4))
def diagonal(op: OperatorContext) -> Expr:
    """A diagonal of the matrices along two axes, as the last axis."""
    return _diagonal(op, op.x, integer(op, 1, "offset", 0), integer(op, 2, "dim1", 0), integer(op, 3, "dim2", 1))


@file_operator("torch.diag", "Tensor.diag", "aten::diag", operands=Count(1, 2))
def diag(op: OperatorContext) -> Expr:
    """The matrix with a vector as its diagonal, or a matrix' diagonal."""
    x, offset = op.x, integer(op, 1, "diagonal", 0)
    if x.ndim not in (1, 2):
        raise OperandError(
            f"an operand {x.type}", rule=f"{op.definition.type}: the operand must be a vector or a matrix"
        )
    return _matrix(op, x, offset, 0, 1) if x.ndim == 1 else _diagonal(op, x, offset, 0, 1)


@file_operator("aten::diag_embed", "torch.diag_embed", "Tensor.diag_embed", operands=Count(1, 4))
def diag_embed(op: OperatorContext) -> Expr:
    """Matrices along two new axes, with the last axis as their diagonal."""
    return _matrix(op, op.x, integer(op, 1, "offset", 0), integer(op, 2, "dim1", -2), integer(op, 3, "dim2", -1))


@file_operator("aten::diagflat", "torch.diagflat", operands=Count(1, 2))
def diagflat(op: OperatorContext) -> Expr:
    """The matrix with all elements as its diagonal."""
    return _matrix(op, reshape(op.x, (op.x.size,)), integer(op, 1, "offset", 0), 0, 1)


def _diagonal(op: OperatorContext, x: Expr, offset: int, first: int, second: int) -> Expr:
    rows, columns = _axes(op, x.ndim, first, second)
    matrices = moveaxis(x, (rows, columns), (-2, -1))
    height, width = matrices.shape[-2:]
    start, count = (
        (offset, min(height, width - offset)) if offset > 0 else (-offset * width, min(height + offset, width))
    )
    flat = reshape(matrices, (*matrices.shape[:-2], height * width))
    # of the elements of all rows in a line every (width + 1)-th is on the diagonal
    end = start + max(count - 1, -1) * (width + 1) + 1
    return flat[(..., slice(start, end, width + 1) if count > 0 else slice(0, 0))]


def _matrix(op: OperatorContext, x: Expr, offset: int, first: int, second: int) -> Expr:
    if not x.ndim:
        raise OperandError(f"an operand {x.type}", rule=f"{op.definition.type}: the operand must have an axis or more")
    rows, columns = _axes(op, x.ndim + 1, first, second)
    size = x.shape[-1] + abs(offset)
    claim_constant("places of a diagonal", size * size)
    longer = padded(x, (*[(0, 0)] * (x.ndim - 1), (0, abs(offset))))
    # element i is in row i where the diagonal is moved to the right, else in column i
    lines = expand_dims(longer, -1 if offset >= 0 else -2)
    matrices = where(np.eye(size, k=offset, dtype=bool), lines, 0)
    return moveaxis(matrices, (-2, -1), (rows, columns))


def _axes(op: OperatorContext, rank: int, first: int, second: int) -> tuple[int, int]:
    axes = normalize_axis(first, rank, "diagonal"), normalize_axis(second, rank, "diagonal")
    if axes[0] == axes[1]:
        raise OperandError(f"dim1={first}, dim2={second}", rule=f"{op.definition.type}: the axes must be two")
    return axes
