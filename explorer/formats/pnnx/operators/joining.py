"""Tensors joined along the axis that a function's name says, split along it, and grids of vectors."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant
from explorer.formats.pnnx.operators.base.arguments import value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import promoted
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import broadcast_to
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape

_GRIDS = ("ij", "xy")


def _at_least(x: Expr, rank: int) -> Expr:
    """Return a tensor with axes of size 1 until it has so many: in front, and the third one behind."""
    missing, behind = rank - x.ndim, (1,) * (rank == 3)
    return x if missing <= 0 else reshape(x, (*[1] * (missing - len(behind)), *x.shape, *behind))


def _enter_at_least(rank: int) -> None:
    @file_operator(f"aten::atleast_{rank}d", f"torch.atleast_{rank}d", operands=Count(1, 1))
    def at_least(op: OperatorContext) -> Expr | tuple[Expr, ...]:
        (operand,) = op.operands
        return (
            tuple([_at_least(x, rank) for x in op.tensors()]) if isinstance(operand, tuple) else _at_least(op.x, rank)
        )

    at_least.__doc__ = f"Tensors with {rank} axes or more."


for _rank in (1, 2, 3):
    _enter_at_least(_rank)


def _enter_joined(name: str, rank: int, axis: int) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}")
    def joined(op: OperatorContext) -> Expr:
        parts = [_at_least(x, rank) for x in promoted(op.tensors())]
        # vectors beside each other are one vector
        return concatenate(parts, 0 if name == "hstack" and parts[0].ndim == 1 else axis)

    joined.__doc__ = f"Tensors of {rank} axes or more joined along axis {axis}."


for _name, _rank, _axis in (("hstack", 1, 1), ("vstack", 2, 0), ("dstack", 3, 2)):
    _enter_joined(_name, _rank, _axis)


@file_operator("aten::column_stack", "torch.column_stack")
def column_stack(op: OperatorContext) -> Expr:
    """Vectors as columns, and the columns of matrices, beside each other."""
    return concatenate([reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in promoted(op.tensors())], 1)


@file_operator("aten::block_diag", "torch.block_diag")
def block_diag(op: OperatorContext) -> Expr:
    """Matrices along the diagonal of one, with zeros elsewhere."""
    parts = [_at_least(x, 2) for x in promoted(op.tensors())]
    start, rows = 0, []
    if any(x.ndim != 2 for x in parts):
        raise OperandError(
            f"operands {', '.join([str(x.type) for x in parts])}", rule=f"{op.definition.type}: there must be matrices"
        )
    width = sum([x.shape[1] for x in parts])
    claim_constant("the matrix of all blocks", width * sum([x.shape[0] for x in parts]))
    for x in parts:
        rows.append(padded(x, ((0, 0), (start, width - start - x.shape[1]))))
        start += x.shape[1]
    return concatenate(rows, 0)


@file_operator("aten::meshgrid", "torch.meshgrid")
def meshgrid(op: OperatorContext) -> tuple[Expr, ...]:
    """Each vector along an axis of its own, repeated along the others'; with xy the first two axes are exchanged."""
    vectors, order = op.operand(0), value(op, 1, "indexing", "ij")
    if order not in _GRIDS:
        raise OperandError(f"indexing={order!r}", rule=f"{op.definition.type}: indexing must be one of ij, xy")
    members = vectors if isinstance(vectors, tuple) else (vectors,)
    lines = [x for x in members if isinstance(x, Expr) and x.ndim < 2]
    if len(lines) != len(members) or not lines:
        raise OperandError(f"operands {members!r}", rule=f"{op.definition.type}: the operands must be vectors")
    axes = [*range(len(lines))]
    if order == "xy":
        axes[:2] = reversed(axes[:2])
    shape = tuple([lines[axis].size for axis in axes])
    return tuple(
        [
            broadcast_to(reshape(x, tuple([x.size if axis == number else 1 for axis in axes])), shape)
            for number, x in enumerate(lines)
        ]
    )
