"""Elements chosen and written by indices and by masks, as ``x[mask]`` and ``x[rows, columns] = v`` do.

How many elements a mask chooses is a value: it is asked of the inputs, and a plan is kept for each such number. Indices
along several axes become one index into these axes merged, and each is checked against its own axis in the run.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import broadcast_shapes, normalize_axis
from explorer.formats.common.flat_places import flat_places
from explorer.formats.pnnx.operators.base.arguments import Number, Value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import promoted
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Unused
from explorer.ops.base import broadcast_to, cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.gather import TakeAlong, take
from explorer.ops.manipulation.one_hot import one_hot
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.put import add_along_axis, put_along_axis
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.reduction.sorting import argsort, cumsum


def _chosen(op: OperatorContext, mask: Expr) -> Expr:
    """Return the indices where a mask is True, in the mask flattened: (count,) int64."""
    count = op.ask("the number of elements that the mask chooses", [mask], _count, mask.size)
    assert isinstance(count, int)
    # a stable order of booleans puts the chosen ones first, as they come
    return argsort(reshape(~mask, (mask.size,)), 0)[:count]


def _count(arrays: Any) -> int:
    return int(np.count_nonzero(arrays[0]))


def _coordinates(op: OperatorContext, mask: Expr) -> list[Expr]:
    """Return the index along each axis of the elements where a mask is True."""
    flat = _chosen(op, mask)
    return [flat // math.prod(mask.shape[axis + 1 :]) % size for axis, size in enumerate(mask.shape)]


def _nonzero(x: Expr) -> Expr:
    return x if x.dtype.kind == "b" else x != 0


@file_operator("torch.nonzero", "Tensor.nonzero", "aten::nonzero", "aten::argwhere")
def nonzero(op: OperatorContext, input: Expr, *, as_tuple: Literal[False] = False) -> Expr:
    """The indices of the elements that are not 0: one row for each, (count, axes)."""
    if not input.ndim:
        raise OperandError(f"an operand {input.type}", rule="the operand must have an axis or more")
    return stack(_coordinates(op, _nonzero(input)), 1)


@file_operator("torch.where", "aten::where")
def where_(
    op: OperatorContext, condition: Expr, input: Expr | Number | None = None, other: Expr | Number | None = None
) -> Any:
    """One of two values by a condition; without values the indices, along each axis, where it is True."""
    if input is None and other is None:
        return tuple(_coordinates(op, _nonzero(condition)))
    return where(condition, *promoted([input, other]))


@file_operator("torch.gather", "Tensor.gather", "aten::gather")
def gather(input: Expr, dim: int, index: Expr, sparse_grad: Unused) -> Expr:
    """For each index the element at its own position, but for one axis, where the index states it."""
    if index.ndim != input.ndim:
        raise OperandError(f"index {index.type} into {input.type}", rule="both must have as many axes")
    axis = normalize_axis(dim, input.ndim, "gather")
    # torch's index may be shorter along the other axes: the rest is not read
    kept = [slice(None) if i == axis else slice(size) for i, size in enumerate(index.shape)]
    return TakeAlong(axis)(part_of(input, tuple(kept)), index)


@file_operator("aten::take_along_dim", "torch.take_along_dim")
def take_along_dim(input: Expr, indices: Expr, dim: int) -> Expr:
    """For each index the element there along an axis; other axes are broadcast."""
    axis = normalize_axis(dim, input.ndim, "take_along_dim")
    rest = None
    if indices.ndim == input.ndim:
        one = [(*s[:axis], 1, *s[axis + 1 :]) for s in (input.shape, indices.shape)]
        rest = broadcast_shapes(*one)
    if rest is None:
        raise OperandError(f"{indices.type} of {input.type}", rule="both must broadcast but for the axis")
    shapes = [(*rest[:axis], each.shape[axis], *rest[axis + 1 :]) for each in (input, indices)]
    return TakeAlong(axis)(broadcast_to(input, shapes[0]), broadcast_to(indices, shapes[1]))


@file_operator("torch.index_select", "Tensor.index_select", "aten::index_select")
def index_select(input: Expr, dim: int, index: Expr) -> Expr:
    """The parts of an axis at indices."""
    return take(input, index, dim)


@file_operator("torch.take", "Tensor.take", "aten::take")
def take_(input: Expr, index: Expr) -> Expr:
    """The elements at indices of the flattened tensor."""
    return take(reshape(input, (input.size,)), index, 0)


@file_operator("F.one_hot", "aten::one_hot")
def one_hot_(input: Expr, num_classes: int = -1) -> Expr:
    """A row for each class number; the number of classes is known."""
    if num_classes < 1:
        raise OperandError(
            f"num_classes={num_classes}", rule="num_classes must be given, so that the shape is known before a run"
        )
    return one_hot(input, num_classes, np.int64)


@file_operator("torch.masked_select", "Tensor.masked_select", "aten::masked_select")
def masked_select(op: OperatorContext, input: Expr, mask: Expr) -> Expr:
    """The elements where a mask is True, in their order."""
    x, mask = _together(input, mask)
    return take(reshape(x, (x.size,)), _chosen(op, mask), 0)


@file_operator("Tensor.masked_fill", "torch.masked_fill", "aten::masked_fill")
def masked_fill(input: Expr, mask: Expr, value: Expr | Number) -> Expr:
    """A value where the mask is True, the elements elsewhere."""
    if isinstance(value, Expr):
        return where(mask, cast(value, input.dtype), input)
    return where(mask, bool(value) if input.dtype.kind == "b" else value, input)


@file_operator("torch.masked_scatter", "Tensor.masked_scatter", "aten::masked_scatter")
def masked_scatter(input: Expr, mask: Expr, source: Expr) -> Expr:
    """The elements of a source, one after the other, where the mask is True; the operand's elsewhere."""
    x, mask = _together(input, mask)
    # one element in front, for where the mask is False
    dealt = padded(reshape(cast(source, x.dtype), (source.size,)), ((1, 0),))
    number = cumsum(reshape(mask, (mask.size,)), 0)
    # a source with too few elements is refused by the look-up
    taken = take(dealt, where(reshape(mask, (mask.size,)), number, 0), 0)
    return where(mask, reshape(taken, mask.shape), x)


def _together(x: Expr, mask: Expr) -> tuple[Expr, Expr]:
    """Return the operand and its mask, broadcast together; raises OperandError for a mask of numbers."""
    shape = broadcast_shapes(x.shape, mask.shape)
    if mask.dtype.kind != "b" or shape is None:
        raise OperandError(
            f"a mask {mask.type} of {x.type}",
            rule="the mask must be boolean and broadcast together with the operand",
        )
    return broadcast_to(x, shape), broadcast_to(mask, shape)


@file_operator("Tensor.index", "aten::index")
def index(op: OperatorContext, input: Expr, expr: Value) -> Expr:
    """The parts at indices, as ``x[:, numbers]``, ``x[rows, columns]`` and ``x[mask]`` choose them."""
    return _part(op, input, expr)


@file_operator("Tensor.index_put", "torch.index_put", "aten::index_put")
def index_put(
    op: OperatorContext, input: Expr, indices: Value, values: Expr | Number, accumulate: bool = False
) -> Expr:
    """The operand with the parts at indices replaced by values, or with the values added there."""
    values = cast(values, input.dtype) if isinstance(values, Expr) else full((), values, input.dtype)
    items = indices if isinstance(indices, tuple) else (indices,)
    mask = _numbers(items[0]) if len(items) == 1 else None
    if mask is not None and _is_mask(mask, input) and not values.ndim and not accumulate:
        return where(reshape(mask, (*mask.shape, *[1] * (input.ndim - mask.ndim))), values, input)
    claim_constant("indices of elements", input.size)
    # the elements' numbers that the same index chooses
    numbers = _part(op, tensor(np.arange(input.size).reshape(input.shape)), indices)
    if broadcast_shapes(values.shape, numbers.shape) != numbers.shape:
        raise OperandError(
            f"values {values.type} at {numbers.shape} elements of {input.type}",
            rule="the values must broadcast to the shape of the indexed part",
        )
    write = add_along_axis if accumulate else put_along_axis
    flat = [reshape(each, (each.size,)) for each in (input, numbers, broadcast_to(values, numbers.shape))]
    return reshape(write(flat[0], flat[1], flat[2], 0), input.shape)


def _is_mask(numbers: Expr, x: Expr) -> bool:
    return numbers.dtype.kind == "b" and numbers.shape == x.shape[: numbers.ndim]


def _part(op: OperatorContext, x: Expr, expression: Any) -> Expr:
    """Return the part of x at indices: None is the whole of an axis, others are numbers or masks."""
    items = expression if isinstance(expression, tuple) else (expression,)
    if items and all(type(item) is int for item in items):
        items = (items,)
    picked: dict[int, Expr] = {}
    axis = 0
    for item in items:
        numbers = _numbers(item)
        if item is not None and (numbers is None or axis + (numbers.ndim if numbers.dtype.kind == "b" else 1) > x.ndim):
            raise OperandError(
                f"the index {expression!r} of {x.type}",
                rule="an index must be integers, a mask or None, at most one for each axis",
                fix=f"register {op.definition.type} yourself with file_operator",
            )
        if numbers is not None and numbers.dtype.kind == "b":
            if not numbers.ndim or numbers.shape != x.shape[axis : axis + numbers.ndim]:
                raise OperandError(
                    f"a mask {numbers.type} at axis {axis} of {x.type}",
                    rule="a mask must have the sizes of the axes that it chooses from, one axis at least",
                )
            for coordinate in _coordinates(op, numbers):
                picked[axis] = coordinate
                axis += 1
            continue
        if numbers is not None:
            picked[axis] = numbers
        axis += 1
    return _at(x, picked)


def _numbers(item: Any) -> Expr | None:
    """Return an index as an expression, boolean for a mask, which may be of uint8 in torch; None for anything else."""
    if isinstance(item, tuple) and all(type(number) is int and abs(number) < 2**63 for number in item):
        return tensor(np.array(item, np.int64))
    if isinstance(item, Expr) and item.dtype == np.uint8:
        return item != 0
    return item if isinstance(item, Expr) and item.dtype.kind in "ib" else None


def _at(x: Expr, picked: dict[int, Expr]) -> Expr:
    """Return the part at indices along some axes: their shape comes first, or at their axes where these adjoin."""
    if not picked:
        return x
    axes = list(picked)
    if len(axes) == 1:
        return take(x, picked[axes[0]], axes[0])
    shapes = [numbers.shape for numbers in picked.values()]
    shape: tuple[int, ...] | None = ()
    for each in shapes:
        shape = None if shape is None else broadcast_shapes(shape, each)
    if shape is None:
        raise OperandError(
            f"indices of the shapes {', '.join(map(str, shapes))}",
            rule="indices must broadcast together",
        )
    front = axes[0]
    if axes[-1] - front >= len(axes):
        front = 0
        x = transpose(x, (*axes, *[axis for axis in range(x.ndim) if axis not in picked]))
    sizes = x.shape[front : front + len(axes)]
    flat = flat_places([*picked.values()], sizes)
    merged = reshape(x, (*x.shape[:front], math.prod(sizes), *x.shape[front + len(axes) :]))
    return take(merged, broadcast_to(flat, shape), front)
