"""Indexing and assignment with indices and masks, such as ``x[mask]`` and ``x[rows, columns] = v``.

The number of elements that a mask selects depends on the mask's values. It is computed from the inputs, and a separate
plan is kept for each such number. Indices along several axes are converted to one index into the merged axes, and each
is checked against the length of its own axis at run time.
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
from explorer.formats.common.flat_indices import merge_indices
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


def _selected(op: OperatorContext, mask: Expr) -> Expr:
    """Return the flat indices of the True elements of ``mask``: (count,) int64."""
    count = op.ask("the number of elements that the mask selects", [mask], _count, mask.size)
    assert isinstance(count, int)
    # a stable sort of the negated mask puts the selected elements first, in their order
    return argsort(reshape(~mask, (mask.size,)), 0)[:count]


def _count(arrays: Any) -> int:
    return int(np.count_nonzero(arrays[0]))


def _coordinates(op: OperatorContext, mask: Expr) -> list[Expr]:
    """Return the indices of the True elements of ``mask``, as one vector for each axis."""
    flat = _selected(op, mask)
    return [flat // math.prod(mask.shape[axis + 1 :]) % size for axis, size in enumerate(mask.shape)]


def _nonzero(x: Expr) -> Expr:
    return x if x.dtype.kind == "b" else x != 0


@file_operator("torch.nonzero", "Tensor.nonzero", "aten::nonzero", "aten::argwhere")
def nonzero(op: OperatorContext, input: Expr, *, as_tuple: Literal[False] = False) -> Expr:
    """Return the indices of the nonzero elements, one row for each: (count, axes)."""
    if not input.ndim:
        raise OperandError(f"an operand {input.type}", rule="the operand must have at least one axis")
    return stack(_coordinates(op, _nonzero(input)), 1)


@file_operator("torch.where", "aten::where")
def where_(
    op: OperatorContext, condition: Expr, input: Expr | Number | None = None, other: Expr | Number | None = None
) -> Any:
    """Return ``input`` where ``condition`` is True, else ``other``.

    If both are None, return the indices along each axis where ``condition`` is True.
    """
    if input is None and other is None:
        return tuple(_coordinates(op, _nonzero(condition)))
    return where(condition, *promoted([input, other]))


@file_operator("torch.gather", "Tensor.gather", "aten::gather")
def gather(input: Expr, dim: int, index: Expr, sparse_grad: Unused) -> Expr:
    """Return, for each element of ``index``, the element of ``input`` at this index along ``dim``."""
    if index.ndim != input.ndim:
        raise OperandError(f"index {index.type} into {input.type}", rule="both must have the same number of axes")
    axis = normalize_axis(dim, input.ndim, "gather")
    # along the other axes, torch's index may be shorter than the input
    ranges = [slice(None) if i == axis else slice(size) for i, size in enumerate(index.shape)]
    return TakeAlong(axis)(part_of(input, tuple(ranges)), index)


@file_operator("aten::take_along_dim", "torch.take_along_dim")
def take_along_dim(input: Expr, indices: Expr, dim: int) -> Expr:
    """Return the elements at ``indices`` along ``dim``; all other axes are broadcast."""
    axis = normalize_axis(dim, input.ndim, "take_along_dim")
    common = None
    if indices.ndim == input.ndim:
        without_axis = [(*s[:axis], 1, *s[axis + 1 :]) for s in (input.shape, indices.shape)]
        common = broadcast_shapes(*without_axis)
    if common is None:
        raise OperandError(f"{indices.type} of {input.type}", rule="all axes except dim must broadcast together")
    shapes = [(*common[:axis], each.shape[axis], *common[axis + 1 :]) for each in (input, indices)]
    return TakeAlong(axis)(broadcast_to(input, shapes[0]), broadcast_to(indices, shapes[1]))


@file_operator("torch.index_select", "Tensor.index_select", "aten::index_select")
def index_select(input: Expr, dim: int, index: Expr) -> Expr:
    """Return the slices of ``input`` at the indices ``index`` along ``dim``."""
    return take(input, index, dim)


@file_operator("torch.take", "Tensor.take", "aten::take")
def take_(input: Expr, index: Expr) -> Expr:
    """Return the elements at indices of the flattened tensor."""
    return take(reshape(input, (input.size,)), index, 0)


@file_operator("F.one_hot", "aten::one_hot")
def one_hot_(input: Expr, num_classes: int = -1) -> Expr:
    """Return a one-hot row for each class index; ``num_classes`` must be given."""
    if num_classes < 1:
        raise OperandError(
            f"num_classes={num_classes}", rule="num_classes must be given, so that the shape is known before a run"
        )
    return one_hot(input, num_classes, np.int64)


@file_operator("torch.masked_select", "Tensor.masked_select", "aten::masked_select")
def masked_select(op: OperatorContext, input: Expr, mask: Expr) -> Expr:
    """Return the elements where ``mask`` is True, in order."""
    x, mask = _broadcast(input, mask)
    return take(reshape(x, (x.size,)), _selected(op, mask), 0)


@file_operator("Tensor.masked_fill", "torch.masked_fill", "aten::masked_fill")
def masked_fill(input: Expr, mask: Expr, value: Expr | Number) -> Expr:
    """Return ``input`` with ``value`` where ``mask`` is True."""
    if isinstance(value, Expr):
        return where(mask, cast(value, input.dtype), input)
    return where(mask, bool(value) if input.dtype.kind == "b" else value, input)


@file_operator("torch.masked_scatter", "Tensor.masked_scatter", "aten::masked_scatter")
def masked_scatter(input: Expr, mask: Expr, source: Expr) -> Expr:
    """Return ``input`` with successive elements of ``source`` where ``mask`` is True."""
    x, mask = _broadcast(input, mask)
    # element 0 is a placeholder for positions where the mask is False
    elements = padded(reshape(cast(source, x.dtype), (source.size,)), ((1, 0),))
    rank = cumsum(reshape(mask, (mask.size,)), 0)
    # take raises an error if the source has too few elements
    taken = take(elements, where(reshape(mask, (mask.size,)), rank, 0), 0)
    return where(mask, reshape(taken, mask.shape), x)


def _broadcast(x: Expr, mask: Expr) -> tuple[Expr, Expr]:
    """Broadcast ``x`` and ``mask`` together; raise OperandError if the mask is not boolean."""
    shape = broadcast_shapes(x.shape, mask.shape)
    if mask.dtype.kind != "b" or shape is None:
        raise OperandError(
            f"a mask {mask.type} of {x.type}",
            rule="the mask must be boolean, and must broadcast together with the operand",
        )
    return broadcast_to(x, shape), broadcast_to(mask, shape)


@file_operator("Tensor.index", "aten::index")
def index(op: OperatorContext, input: Expr, expr: Value) -> Expr:
    """Return the elements at indices or masks, such as ``x[:, indices]``, ``x[rows, columns]`` and ``x[mask]``."""
    return _part(op, input, expr)


@file_operator("Tensor.index_put", "torch.index_put", "aten::index_put")
def index_put(
    op: OperatorContext, input: Expr, indices: Value, values: Expr | Number, accumulate: bool = False
) -> Expr:
    """Return ``input`` with ``values`` at the indices, or with ``values`` added if ``accumulate`` is True."""
    values = cast(values, input.dtype) if isinstance(values, Expr) else full((), values, input.dtype)
    items = indices if isinstance(indices, tuple) else (indices,)
    mask = _indices(items[0]) if len(items) == 1 else None
    if mask is not None and _is_mask(mask, input) and not values.ndim and not accumulate:
        return where(reshape(mask, (*mask.shape, *[1] * (input.ndim - mask.ndim))), values, input)
    claim_constant("indices of elements", input.size)
    # flat indices of the selected elements
    flat_indices = _part(op, tensor(np.arange(input.size).reshape(input.shape)), indices)
    if broadcast_shapes(values.shape, flat_indices.shape) != flat_indices.shape:
        raise OperandError(
            f"values {values.type} for a part {flat_indices.shape} of {input.type}",
            rule="the values must broadcast to the shape of the indexed part",
        )
    write = add_along_axis if accumulate else put_along_axis
    flat = [reshape(each, (each.size,)) for each in (input, flat_indices, broadcast_to(values, flat_indices.shape))]
    return reshape(write(flat[0], flat[1], flat[2], 0), input.shape)


def _is_mask(index: Expr, x: Expr) -> bool:
    return index.dtype.kind == "b" and index.shape == x.shape[: index.ndim]


def _part(op: OperatorContext, x: Expr, expression: Any) -> Expr:
    """Return the part of x that ``expression`` selects by None (the whole axis), integers or a mask for each axis."""
    items = expression if isinstance(expression, tuple) else (expression,)
    if items and all(type(item) is int for item in items):
        items = (items,)
    indices: dict[int, Expr] = {}
    axis = 0
    for item in items:
        index = _indices(item)
        if item is not None and (index is None or axis + (index.ndim if index.dtype.kind == "b" else 1) > x.ndim):
            raise OperandError(
                f"the index {expression!r} of {x.type}",
                rule="an index must consist of integers, masks and None, at most one for each axis",
                fix=f"register a builder of {op.definition.type} with ex.file_operator",
            )
        if index is not None and index.dtype.kind == "b":
            if not index.ndim or index.shape != x.shape[axis : axis + index.ndim]:
                raise OperandError(
                    f"a mask {index.type} at axis {axis} of {x.type}",
                    rule="a mask must have at least one axis, and the same sizes as the axes that it indexes",
                )
            for coordinate in _coordinates(op, index):
                indices[axis] = coordinate
                axis += 1
            continue
        if index is not None:
            indices[axis] = index
        axis += 1
    return _at(x, indices)


def _indices(item: Any) -> Expr | None:
    """Return integers or a mask (possibly uint8, as in torch) as an expression; return None for any other item."""
    if isinstance(item, tuple) and all(type(number) is int and abs(number) < 2**63 for number in item):
        return tensor(np.array(item, np.int64))
    if isinstance(item, Expr) and item.dtype == np.uint8:
        return item != 0
    return item if isinstance(item, Expr) and item.dtype.kind in "ib" else None


def _at(x: Expr, indices: dict[int, Expr]) -> Expr:
    """Return the elements of x at ``indices``, which maps axes to indices.

    If the axes are adjacent, the common shape of the indices replaces them. Otherwise this shape comes first.
    """
    if not indices:
        return x
    axes = list(indices)
    if len(axes) == 1:
        return take(x, indices[axes[0]], axes[0])
    shapes = [index.shape for index in indices.values()]
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
        x = transpose(x, (*axes, *[axis for axis in range(x.ndim) if axis not in indices]))
    sizes = x.shape[front : front + len(axes)]
    flat = merge_indices([*indices.values()], sizes)
    merged = reshape(x, (*x.shape[:front], math.prod(sizes), *x.shape[front + len(axes) :]))
    return take(merged, broadcast_to(flat, shape), front)
