"""Operators that reorder, repeat, split or replace elements."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import broadcast_shapes, normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.reshape import Part
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Ints, Names, Unused
from explorer.ops.base import broadcast_to, cast
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.rearrange import flip, moveaxis, repeat, roll, tile
from explorer.ops.manipulation.reshape import expand_dims, reshape, transpose


@file_operator("torch.flip", "Tensor.flip", "aten::flip")
def flip_(input: Expr, dims: Ints) -> Expr:
    """Reverse the order of the elements along the axes ``dims``."""
    return flip(input, dims)


@file_operator("aten::fliplr", "torch.fliplr")
def fliplr(input: Expr) -> Expr:
    """Reverse the order of the columns."""
    return _flipped(input, 1)


@file_operator("aten::flipud", "torch.flipud")
def flipud(input: Expr) -> Expr:
    """Reverse the order of the rows."""
    return _flipped(input, 0)


def _flipped(x: Expr, axis: int) -> Expr:
    if x.ndim <= axis:
        raise OperandError(f"an operand {x.type}", rule=f"the operand must have {axis + 1} axes or more")
    return flip(x, axis)


@file_operator("aten::rot90", "torch.rot90")
def rot90(input: Expr, k: int = 1, dims: Ints = (0, 1)) -> Expr:
    """Rotate the matrices along the two axes ``dims`` by k · 90°, from the first axis towards the second."""
    quarters = k % 4
    axes = [normalize_axis(axis, input.ndim, "rot90") for axis in dims]
    if len(axes) != 2 or axes[0] == axes[1]:
        raise OperandError(f"dims={tuple(axes)}", rule="dims must be two different axes")
    if quarters == 2:
        return flip(input, tuple(axes))
    order = [*range(input.ndim)]
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    return input if not quarters else flip(transpose(input, tuple(order)), axes[0 if quarters == 1 else 1])


@file_operator("torch.roll", "Tensor.roll", "aten::roll")
def roll_(input: Expr, shifts: Ints, dims: Ints | None = None) -> Expr:
    """Roll elements along the axes ``dims``; elements beyond the end reappear at the beginning."""
    return roll(input, shifts, dims) if dims else roll(input, shifts)


@file_operator("Tensor.repeat", "torch.tile", "Tensor.tile", "aten::repeat")
def repeat_(input: Expr, dims: Annotated[Ints, Names("sizes", "dims")]) -> Expr:
    """Repeat the whole tensor ``dims[i]`` times along axis i."""
    return tile(input, dims)


@file_operator("torch.repeat_interleave", "Tensor.repeat_interleave")
def repeat_interleave(
    op: OperatorContext, input: Expr, repeats: Expr | int, dim: int | None = None, *, output_size: Unused
) -> Expr:
    """Repeat each element along the axis ``dim``; the sum of ``repeats`` determines the length of the result."""
    if isinstance(repeats, int):
        return repeat(input, repeats, dim)
    if dim is None:
        input, dim = reshape(input, (input.size,)), 0
    axis = normalize_axis(dim, input.ndim, "repeat_interleave")
    counts = op.value("the numbers of repetitions", repeats)
    length = input.shape[axis]
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (1,), (length,)) or counts.min(initial=0) < 0:
        raise OperandError(
            f"repeats={repeats.type} for {input.type}",
            rule="repeats must be a non-negative integer, or one for each index of the axis",
        )
    each = np.broadcast_to(counts.reshape(-1), (length,))
    claim_constant("indices of repeated parts", int(each.sum(dtype=np.float64)))
    return take(input, np.repeat(np.arange(length), each), axis)


@file_operator("torch.movedim", "Tensor.movedim", "aten::movedim", "torch.moveaxis")
def movedim(input: Expr, source: Ints, destination: Ints) -> Expr:
    """Move the axes ``source`` to the positions ``destination``."""
    return moveaxis(input, source, destination)


@file_operator("torch.unbind", "Tensor.unbind", "aten::unbind")
def unbind(input: Expr, dim: int = 0) -> tuple[Expr, ...]:
    """Return one tensor for each index along the axis ``dim``."""
    axis = normalize_axis(dim, input.ndim, "unbind")
    claim_steps("unbind", input.shape[axis])
    return tuple([input[(*[slice(None)] * axis, index)] for index in range(input.shape[axis])])


Cuts = Annotated[int | Ints, Names("sections", "indices")]
"""number of parts, or the indices at which parts begin"""


@file_operator("torch.tensor_split", "Tensor.tensor_split", "aten::tensor_split")
def tensor_split(input: Expr, indices: Cuts, dim: int = 0) -> tuple[Expr, ...]:
    """Split the axis ``dim`` at the given indices, or into a given number of parts of (almost) equal length."""
    axis = normalize_axis(dim, input.ndim, "tensor_split")
    if isinstance(indices, tuple):
        ends = [*indices, input.shape[axis]]
    else:
        if indices < 1:
            raise OperandError(f"sections={indices}", rule="there must be at least one part")
        claim_steps("tensor_split", indices)
        size, longer = divmod(input.shape[axis], indices)
        ends = [size * (index + 1) + min(index + 1, longer) for index in range(indices)]
    starts = [0, *ends[:-1]]
    return tuple([input[(*[slice(None)] * axis, slice(a, b))] for a, b in zip(starts, ends, strict=True)])


def _register_split(name: str, axis: int) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}")
    def split(input: Expr, indices: Cuts) -> tuple[Expr, ...]:
        # hsplit splits vectors along their only axis
        return tensor_split(input, indices, 0 if name == "hsplit" and input.ndim == 1 else axis)

    split.__doc__ = f"Split axis {axis} like tensor_split."


for _name, _axis in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2)):
    _register_split(_name, _axis)


@file_operator("Tensor.expand_as", "aten::expand_as")
def expand_as(input: Expr, other: Expr) -> Expr:
    """Broadcast ``input`` to the shape of ``other``."""
    return broadcast_to(input, other.shape)


@file_operator("torch.slice_scatter", "Tensor.slice_scatter", "aten::slice_scatter")
def slice_scatter(
    input: Expr, src: Expr, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Expr:
    """Return ``input`` with the range from ``start`` to ``end`` of the axis ``dim`` replaced by ``src``."""
    axis = normalize_axis(dim, input.ndim, "slice_scatter")
    if step < 1:
        raise OperandError(f"step={step}", rule="the step of a range must be 1 or more")
    return _replaced(input, src, axis, range(*slice(start, end, step).indices(input.shape[axis])))


@file_operator("torch.select_scatter", "Tensor.select_scatter", "aten::select_scatter")
def select_scatter(input: Expr, src: Expr, dim: int, index: int) -> Expr:
    """Return ``input`` with the slice at ``index`` of the axis ``dim`` replaced by ``src``."""
    axis = normalize_axis(dim, input.ndim, "select_scatter")
    at = normalize_axis(index, input.shape[axis], "select_scatter: index")
    return _replaced(input, expand_dims(src, axis), axis, range(at, at + 1))


@file_operator("Tensor.slice_copy")
def slice_copy(input: Expr, src: Expr, *, part: Part) -> Expr:
    """Return ``input`` with one part replaced by ``src``, like ``x[1:3, ::2] = y``."""
    x, index = input, part.index(input)
    claim_constant("indices of elements", x.size)
    try:
        indices = np.arange(x.size).reshape(x.shape)[index]
    except (IndexError, ValueError) as error:
        raise OperandError(f"the part {index!r} of {x.type}", rule=str(error)) from None
    if broadcast_shapes(src.shape, indices.shape) != indices.shape:
        raise OperandError(
            f"{src.type} into a part of the shape {indices.shape}",
            rule="the new part must broadcast to the part that it replaces",
        )
    order = np.arange(x.size)
    order[indices.ravel()] = np.arange(x.size, x.size + indices.size)
    new = reshape(broadcast_to(cast(src, x.dtype), indices.shape), (indices.size,))
    return reshape(take(concatenate((reshape(x, (x.size,)), new), 0), order, 0), x.shape)


def _replaced(x: Expr, source: Expr, axis: int, indices: range) -> Expr:
    """Return ``x`` with the slices at ``indices`` along ``axis`` replaced by ``source``."""
    if source.shape != (*x.shape[:axis], len(indices), *x.shape[axis + 1 :]):
        raise OperandError(
            f"{source.type} into {x.type}, {len(indices)} parts of axis {axis}",
            rule="the new part must have the shape of the part that it replaces",
        )
    length = x.shape[axis]
    claim_constant("the order of the parts", length)
    # Gathering from the concatenation of both tensors is differentiable. The indices of ``source`` follow those of
    # ``x``.
    order = np.arange(length)
    order[indices.start : indices.stop : indices.step] = np.arange(length, length + len(indices))
    return take(concatenate((x, source), axis), order, axis)
