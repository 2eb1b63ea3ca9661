"""Stacking along fixed axes, block-diagonal matrices, grids of vectors, and broadcasting."""

from __future__ import annotations

from typing import Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Shape, broadcast_shapes
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import promoted
from explorer.ops.base import broadcast_to
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape


def _at_least(x: Expr, rank: int) -> Expr:
    """Add axes of length 1 like np.atleast_1d, np.atleast_2d and np.atleast_3d."""
    missing, last = rank - x.ndim, (1,) * (rank == 3)
    return x if missing <= 0 else reshape(x, (*[1] * (missing - len(last)), *x.shape, *last))


def _register_at_least(rank: int) -> None:
    @file_operator(f"aten::atleast_{rank}d", f"torch.atleast_{rank}d")
    def at_least(tensors: Expr | tuple[Expr, ...]) -> Expr | tuple[Expr, ...]:
        return tuple([_at_least(x, rank) for x in tensors]) if isinstance(tensors, tuple) else _at_least(tensors, rank)

    at_least.__doc__ = f"Add axes of size 1 until tensors have at least {rank} axes."


for _rank in (1, 2, 3):
    _register_at_least(_rank)


def _register_joined(name: str, rank: int, axis: int) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}")
    def joined(*tensors: Expr) -> Expr:
        parts = [_at_least(x, rank) for x in promoted(tensors)]
        # hstack concatenates vectors into one vector
        return concatenate(parts, 0 if name == "hstack" and parts[0].ndim == 1 else axis)

    joined.__doc__ = f"Concatenate tensors of at least {rank} axes along axis {axis}."


for _name, _rank, _axis in (("hstack", 1, 1), ("vstack", 2, 0), ("dstack", 3, 2)):
    _register_joined(_name, _rank, _axis)


@file_operator("aten::column_stack", "torch.column_stack")
def column_stack(*tensors: Expr) -> Expr:
    """Concatenate along the second axis; vectors become columns."""
    return concatenate([reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in promoted(tensors)], 1)


@file_operator("aten::block_diag", "torch.block_diag")
def block_diag(*tensors: Expr) -> Expr:
    """Return the block-diagonal matrix of the given matrices."""
    parts = [_at_least(x, 2) for x in promoted(tensors)]
    start, rows = 0, []
    if any(x.ndim != 2 for x in parts):
        raise OperandError(f"operands {', '.join([str(x.type) for x in parts])}", rule="the operands must be matrices")
    width = sum([x.shape[1] for x in parts])
    claim_constant("the matrix of all blocks", width * sum([x.shape[0] for x in parts]))
    for x in parts:
        rows.append(padded(x, ((0, 0), (start, width - start - x.shape[1]))))
        start += x.shape[1]
    return concatenate(rows, 0)


@file_operator("aten::meshgrid", "torch.meshgrid")
def meshgrid(tensors: Expr | tuple[Expr, ...], indexing: Literal["ij", "xy"] = "ij") -> tuple[Expr, ...]:
    """Return each vector along one axis of a grid, repeated along the other axes.

    ``indexing="xy"`` exchanges the first two axes.
    """
    vectors = tensors if isinstance(tensors, tuple) else (tensors,)
    if not vectors or any(x.ndim > 1 for x in vectors):
        raise OperandError(f"operands {vectors!r}", rule="the operands must be vectors")
    axes = [*range(len(vectors))]
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    shape = tuple([vectors[axis].size for axis in axes])
    return tuple(
        [
            broadcast_to(reshape(x, tuple([x.size if axis == index else 1 for axis in axes])), shape)
            for index, x in enumerate(vectors)
        ]
    )


@file_operator("aten::broadcast_tensors", "torch.broadcast_tensors")
def broadcast_tensors(*tensors: Expr) -> tuple[Expr, ...]:
    """Broadcast tensors to their common shape."""
    shape: Shape | None = ()
    for each in tensors:
        shape = None if shape is None else broadcast_shapes(shape, each.shape)
    if shape is None:
        raise OperandError(", ".join([str(each.type) for each in tensors]), rule="operands must broadcast together")
    return tuple([broadcast_to(each, shape) for each in tensors])
