"""Elements chosen and written by several indices and by masks, as ``x[mask]`` and ``x[rows, columns] = v`` do.

How many elements a mask chooses is a value: it is asked of the inputs, and a plan is kept for each such number. Indices
along several axes become one index into these axes merged, and each is checked against its own axis in the run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import broadcast_shapes
from explorer.formats.common.flat_places import flat_places
from explorer.formats.pnnx.operators.base.arguments import flag, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import broadcast_to, cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.put import add_along_axis, put_along_axis
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.reduction.sorting import argsort, cumsum


def _chosen(op: OperatorContext, mask: Expr) -> Expr:
    """Return the places where a mask holds, in the mask flattened: (count,) int64."""
    count = op.ask("the number of elements that the mask chooses", [mask], _count, mask.size)
    assert isinstance(count, int)
    # a stable order of truths puts the chosen ones first, as they come
    return argsort(reshape(~mask, (mask.size,)), 0)[:count]


def _count(arrays: Any) -> int:
    return int(np.count_nonzero(arrays[0]))


def coordinates(op: OperatorContext, mask: Expr) -> list[Expr]:
    """Return the index along each axis of the elements where a mask holds."""
    flat = _chosen(op, mask)
    return [flat // math.prod(mask.shape[axis + 1 :]) % size for axis, size in enumerate(mask.shape)]


@file_operator("torch.nonzero", "Tensor.nonzero", "aten::nonzero")
def nonzero(op: OperatorContext) -> Expr:
    """The indices of the elements that are not 0: one row for each, (count, axes)."""
    op.only("as_tuple", False)
    x = op.x
    mask = x if x.dtype.kind == "b" else x != 0
    if not mask.ndim:
        raise OperandError(f"an operand {x.type}", rule=f"{op.definition.type}: the operand must have an axis or more")
    return stack(coordinates(op, mask), 1)


@file_operator("torch.masked_select", "Tensor.masked_select", "aten::masked_select")
def masked_select(op: OperatorContext) -> Expr:
    """The elements where a mask holds, in their order."""
    x, mask = _together(op)
    return take(reshape(x, (x.size,)), _chosen(op, mask), 0)


@file_operator("torch.masked_scatter", "Tensor.masked_scatter", "aten::masked_scatter")
def masked_scatter(op: OperatorContext) -> Expr:
    """The elements of a source, one after the other, where the mask holds; the operand's elsewhere."""
    x, mask = _together(op)
    source = op.tensor(2, "source")
    # one element in front, for the places where the mask does not hold
    dealt = padded(reshape(cast(source, x.dtype), (source.size,)), ((1, 0),))
    number = cumsum(reshape(mask, (mask.size,)), 0)
    # a source with too few elements is refused by the look-up
    taken = take(dealt, where(reshape(mask, (mask.size,)), number, 0), 0)
    return where(mask, reshape(taken, mask.shape), x)


def _together(op: OperatorContext) -> tuple[Expr, Expr]:
    """Return the operand and its mask, broadcast together; raises OperandError for a mask of numbers."""
    x, mask = op.x, op.tensor(1, "mask")
    shape = broadcast_shapes(x.shape, mask.shape)
    if mask.dtype.kind != "b" or shape is None:
        raise OperandError(
            f"a mask {mask.type} of {x.type}",
            rule=f"{op.definition.type}: the mask must hold truths and broadcast together with the operand",
        )
    return broadcast_to(x, shape), broadcast_to(mask, shape)


@file_operator("Tensor.index", "aten::index")
def index(op: OperatorContext) -> Expr:
    """The parts at indices, as ``x[:, numbers]``, ``x[rows, columns]`` and ``x[mask]`` choose them."""
    return _part(op, op.x, value(op, 1, "expr"))


@file_operator("Tensor.index_put", "torch.index_put", "aten::index_put")
def index_put(op: OperatorContext) -> Expr:
    """The operand with the parts at indices replaced by values, or with the values added there."""
    x, indices, values = op.x, value(op, 1, "indices"), value(op, 2, "values")
    values = cast(values, x.dtype) if isinstance(values, Expr) else full((), values, x.dtype)
    items = indices if isinstance(indices, tuple) else (indices,)
    mask = _numbers(items[0]) if len(items) == 1 else None
    if mask is not None and _is_mask(mask, x) and not values.ndim and not flag(op, 3, "accumulate", False):
        return where(reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim))), values, x)
    claim_constant("places of elements", x.size)
    # the places are those that the same index chooses of the elements' numbers
    places = _part(op, tensor(np.arange(x.size).reshape(x.shape)), indices)
    if broadcast_shapes(values.shape, places.shape) != places.shape:
        raise OperandError(
            f"values {values.type} at {places.shape} elements of {x.type}",
            rule=f"{op.definition.type}: the values must broadcast to the shape of the indexed part",
        )
    write = add_along_axis if flag(op, 3, "accumulate", False) else put_along_axis
    flat = [reshape(each, (each.size,)) for each in (x, places, broadcast_to(values, places.shape))]
    return reshape(write(flat[0], flat[1], flat[2], 0), x.shape)


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
                rule=f"{op.definition.type}: an index must be whole numbers, a mask or None, at most one for each axis",
                fix=f"register {op.definition.type} yourself with file_operator",
            )
        if numbers is not None and numbers.dtype.kind == "b":
            if not numbers.ndim or numbers.shape != x.shape[axis : axis + numbers.ndim]:
                raise OperandError(
                    f"a mask {numbers.type} at axis {axis} of {x.type}",
                    rule=f"{op.definition.type}: a mask must have the sizes of the axes that it chooses from, one axis "
                    "at least",
                )
            for place in coordinates(op, numbers):
                picked[axis] = place
                axis += 1
            continue
        if numbers is not None:
            picked[axis] = numbers
        axis += 1
    return _at(op, x, picked)


def _numbers(item: Any) -> Expr | None:
    """Return an index as an expression, of truths for a mask, which may be of uint8 in torch; None for what is none."""
    if isinstance(item, tuple) and all(type(number) is int and abs(number) < 2**63 for number in item):
        return tensor(np.array(item, np.int64))
    if isinstance(item, Expr) and item.dtype == np.uint8:
        return item != 0
    return item if isinstance(item, Expr) and item.dtype.kind in "ib" else None


def _at(op: OperatorContext, x: Expr, picked: dict[int, Expr]) -> Expr:
    """Return the part at indices along some axes: their shape comes first, or in their place where they adjoin."""
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
            rule=f"{op.definition.type}: indices must broadcast together",
        )
    front = axes[0]
    if axes[-1] - front >= len(axes):
        front = 0
        x = transpose(x, (*axes, *[axis for axis in range(x.ndim) if axis not in picked]))
    sizes = x.shape[front : front + len(axes)]
    flat = flat_places([*picked.values()], sizes)
    merged = reshape(x, (*x.shape[:front], math.prod(sizes), *x.shape[front + len(axes) :]))
    return take(merged, broadcast_to(flat, shape), front)
