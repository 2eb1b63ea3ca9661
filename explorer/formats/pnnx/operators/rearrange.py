"""Elements in another order, repeated, or dealt out to several outputs."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import broadcast_shapes, normalize_axis
from explorer.formats.pnnx.operators.base.arguments import integer, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.reshape import part
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import broadcast_to, cast
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.rearrange import flip, moveaxis, repeat, roll, tile
from explorer.ops.manipulation.reshape import expand_dims, reshape, transpose


@file_operator("torch.flip", "Tensor.flip", "aten::flip")
def flip_(op: OperatorContext) -> Expr:
    """Elements in reverse order along axes."""
    return flip(op.x, integers(op, 1, "dims"))


@file_operator("aten::fliplr", "torch.fliplr", "aten::flipud", "torch.flipud", operands=Count(1, 1))
def flip_sides(op: OperatorContext) -> Expr:
    """Columns (lr) or rows (ud) in reverse order."""
    x, axis = op.x, 1 if op.definition.type.endswith("lr") else 0
    if x.ndim <= axis:
        raise OperandError(
            f"an operand {x.type}", rule=f"{op.definition.type}: the operand must have {axis + 1} axes or more"
        )
    return flip(x, axis)


@file_operator("aten::rot90", "torch.rot90", operands=Count(1, 3))
def rot90(op: OperatorContext) -> Expr:
    """Matrices along two axes turned by so many quarters, from the first axis to the second."""
    x, turns = op.x, integer(op, 1, "k", 1) % 4
    axes = [normalize_axis(axis, x.ndim, "rot90") for axis in integers(op, 2, "dims", (0, 1))]
    if len(axes) != 2 or axes[0] == axes[1]:
        raise OperandError(f"dims={tuple(axes)}", rule=f"{op.definition.type}: there must be two axes")
    if turns == 2:
        return flip(x, tuple(axes))
    order = [*range(x.ndim)]
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    return x if not turns else flip(transpose(x, tuple(order)), axes[0 if turns == 1 else 1])


@file_operator("torch.roll", "Tensor.roll", "aten::roll")
def roll_(op: OperatorContext) -> Expr:
    """Elements moved along axes, the last ones to the front."""
    axes = value(op, 2, "dims", None)
    shifts = integers(op, 1, "shifts")
    if axes is None or axes == ():
        return roll(op.x, shifts)
    return roll(op.x, shifts, integers(op, 2, "dims"))


@file_operator("Tensor.repeat", "torch.tile", "Tensor.tile", "aten::repeat")
def repeat_(op: OperatorContext) -> Expr:
    """The whole repeated along axes."""
    return tile(op.x, integers(op, 1, "sizes" if op.has("sizes") else "dims"))


@file_operator("torch.repeat_interleave", "Tensor.repeat_interleave", ignored=("output_size",))
def repeat_interleave(op: OperatorContext) -> Expr:
    """Each element repeated along an axis."""
    x, axis = op.x, None if op.argument("dim", None) is None else op.integer("dim")
    repeats = op.argument("repeats")
    if not isinstance(repeats, Expr):
        return repeat(x, op.integer("repeats"), axis)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    place = normalize_axis(axis, x.ndim, "repeat_interleave")
    counts = op.value("the numbers of repetitions", repeats)
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (1,), (x.shape[place],)) or counts.min(initial=0) < 0:
        raise OperandError(
            f"repeats={repeats.type} for {x.type}",
            rule=f"{op.definition.type}: repeats must be an integer of 0 or more, or one for each part of the axis",
        )
    each = np.broadcast_to(counts.reshape(-1), (x.shape[place],))
    claim_constant("places of repeated parts", int(each.sum(dtype=np.float64)))
    return take(x, np.repeat(np.arange(x.shape[place]), each), place)


@file_operator("torch.movedim", "Tensor.movedim", "aten::movedim", "torch.moveaxis")
def movedim(op: OperatorContext) -> Expr:
    """Axes at other places."""
    return moveaxis(op.x, integers(op, 1, "source"), integers(op, 2, "destination"))


@file_operator("torch.unbind", "Tensor.unbind", "aten::unbind")
def unbind(op: OperatorContext) -> tuple[Expr, ...]:
    """The parts at each index of an axis."""
    x = op.x
    axis = normalize_axis(integer(op, 1, "dim", 0), x.ndim, "unbind")
    claim_steps("unbind", x.shape[axis])
    return tuple([x[(*[slice(None)] * axis, index)] for index in range(x.shape[axis])])


@file_operator("torch.tensor_split", "Tensor.tensor_split", "aten::tensor_split")
def tensor_split(op: OperatorContext) -> tuple[Expr, ...]:
    """Parts of an axis: so many, the first ones one longer where it does not divide, or between given places."""
    x = op.x
    return _split(op, x, normalize_axis(integer(op, 2, "dim", 0), x.ndim, "tensor_split"))


def _enter_split(name: str, axis: int) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}", operands=Count(1, 2))
    def split(op: OperatorContext) -> tuple[Expr, ...]:
        # lists are split along their only axis by hsplit
        place = 0 if name == "hsplit" and op.x.ndim == 1 else axis
        return _split(op, op.x, normalize_axis(place, op.x.ndim, name))

    split.__doc__ = f"Parts of axis {axis}, as tensor_split makes them."


for _name, _axis in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2)):
    _enter_split(_name, _axis)


def _split(op: OperatorContext, x: Expr, axis: int) -> tuple[Expr, ...]:
    cuts = value(op, 1, "sections" if op.has("sections") else "indices")
    length = x.shape[axis]
    if isinstance(cuts, tuple):
        ends = [*integers(op, 1, "indices"), length]
    else:
        count = integer(op, 1, "sections")
        if count < 1:
            raise OperandError(f"sections={count}", rule="there must be at least one part")
        claim_steps("tensor_split", count)
        size, longer = divmod(length, count)
        ends = [size * (index + 1) + min(index + 1, longer) for index in range(count)]
    starts = [0, *ends[:-1]]
    return tuple([x[(*[slice(None)] * axis, slice(a, b))] for a, b in zip(starts, ends, strict=True)])


@file_operator("Tensor.expand_as", "aten::expand_as")
def expand_as(op: OperatorContext) -> Expr:
    """Axes of size 1 repeated to the shape of another tensor."""
    return broadcast_to(op.x, op.tensor(1, "other").shape)


@file_operator("torch.slice_scatter", "Tensor.slice_scatter", "aten::slice_scatter")
def slice_scatter(op: OperatorContext) -> Expr:
    """A tensor with a range of one axis replaced by another."""
    x, source = op.x, op.tensor(1, "src")
    axis = normalize_axis(integer(op, 2, "dim", 0), x.ndim, "slice_scatter")
    start, end = (
        None if value(op, 3 + i, name, None) is None else integer(op, 3 + i, name)
        for i, name in enumerate(("start", "end"))
    )
    step = integer(op, 5, "step", 1)
    if step < 1:
        raise OperandError(f"step={step}", rule="the step of a range must be 1 or more")
    first, last, step = slice(start, end, step).indices(x.shape[axis])
    return _replaced(x, source, axis, range(first, last, step))


@file_operator("torch.select_scatter", "Tensor.select_scatter", "aten::select_scatter")
def select_scatter(op: OperatorContext) -> Expr:
    """A tensor with the part at one index of an axis replaced by another."""
    x, source = op.x, op.tensor(1, "src")
    axis = normalize_axis(integer(op, 2, "dim"), x.ndim, "select_scatter")
    index = normalize_axis(integer(op, 3, "index"), x.shape[axis], "select_scatter: index")
    return _replaced(x, expand_dims(source, axis), axis, range(index, index + 1))


@file_operator("Tensor.slice_copy")
def slice_copy(op: OperatorContext) -> Expr:
    """A tensor with one part replaced, as ``x[1:3, ::2] = y`` does."""
    x, source, index = op.x, op.tensor(1, "src"), part(op, op.x)
    claim_constant("places of elements", x.size)
    try:
        places = np.arange(x.size).reshape(x.shape)[index]
    except (IndexError, ValueError) as error:
        raise OperandError(f"the part {index!r} of {x.type}", rule=f"{op.definition.type}: {error}") from None
    if broadcast_shapes(source.shape, places.shape) != places.shape:
        raise OperandError(
            f"{source.type} into a part of the shape {places.shape}",
            rule=f"{op.definition.type}: the new part must broadcast to the part that it replaces",
        )
    order = np.arange(x.size)
    order[places.ravel()] = np.arange(x.size, x.size + places.size)
    new = reshape(broadcast_to(cast(source, x.dtype), places.shape), (places.size,))
    return reshape(take(concatenate((reshape(x, (x.size,)), new), 0), order, 0), x.shape)


def _replaced(x: Expr, source: Expr, axis: int, places: range) -> Expr:
    """``x`` with the parts at places of an axis taken from ``source``."""
    if source.shape != (*x.shape[:axis], len(places), *x.shape[axis + 1 :]):
        raise OperandError(
            f"{source.type} into {x.type}, {len(places)} places of axis {axis}",
            rule="the new part must have the shape of the part that it replaces",
        )
    length = x.shape[axis]
    claim_constant("the order of the places", length)
    # a gather from both, joined: places of the part point behind x. Its gradient is the gather's
    order = np.arange(length)
    order[places.start : places.stop : places.step] = np.arange(length, length + len(places))
    return take(concatenate((x, source), axis), order, axis)
