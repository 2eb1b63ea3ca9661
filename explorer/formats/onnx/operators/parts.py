"""Parts of tensors: slices, rows, pieces; and tensors joined or surrounded."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.core.types import normalize_axis
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.values import (
    axis_of,
    first,
    given,
    integers,
    is_given,
    is_known,
    members,
    optional_integers,
    value_of,
)
from explorer.net.context import OperatorContext
from explorer.ops.arithmetic import where
from explorer.ops.joining import concatenate
from explorer.ops.lookup import embedding
from explorer.ops.movement import transpose

_FAR = 1 << 62


@operator("Concat")
def concat(op: OperatorContext) -> Expr:
    """Tensors joined along an axis."""
    return concatenate(members(op, "inputs"), op.integer("axis"))


@operator("Split")
def split(op: OperatorContext) -> tuple[Expr, ...]:
    """Parts along an axis: of given sizes, else as many as there are outputs, the last one smaller."""
    x = first(op)
    axis = axis_of(op, x, 0)
    sizes = optional_integers(op, "split")
    if sizes is None:
        count = op.integer("num_outputs", len(op.definition.outputs))
        each = -(-x.shape[axis] // count)
        sizes = tuple([min(each, x.shape[axis] - start * each) for start in range(count)])
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise OperandError(f"split={sizes} of {x.type}", rule=f"Split: the sizes add up to {x.shape[axis]}")
    ends = np.cumsum(sizes).tolist()
    return tuple([x[(*[slice(None)] * axis, slice(end - n, end))] for end, n in zip(ends, sizes, strict=True)])


@operator("Slice")
def slice_(op: OperatorContext) -> Expr:
    """Ranges of some axes; bounds beyond an axis are its ends, steps may be negative."""
    x, starts, ends = first(op), integers(op, "starts"), integers(op, "ends")
    axes = optional_integers(op, "axes") if is_given(op, "axes") else tuple(range(len(starts)))
    steps = optional_integers(op, "steps") or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes or ()) == len(steps):
        raise OperandError(
            f"starts={starts}, ends={ends}, axes={axes}, steps={steps}", rule="Slice: there is one of each for an axis"
        )
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes or (), steps, strict=True):
        if step == 0:
            raise OperandError(f"steps={steps}", rule="Slice: a step is not 0")
        place = normalize_axis(axis, x.ndim, "Slice")
        size = x.shape[place]
        stop = None if step < 0 and end < -size else min(end, _FAR)
        index[place] = slice(max(start, -_FAR), stop, step)
    return x[tuple(index)]


@operator("Gather")
def gather(op: OperatorContext) -> Expr:
    """The parts of an axis at some indices; a negative index counts from the end."""
    x, indices = given(op, "data"), given(op, "indices")
    axis = axis_of(op, x, 0)
    size = x.shape[axis]
    if is_known(indices):
        chosen = value_of(indices)
        if chosen.size and not (-size <= chosen.min() and chosen.max() < size):
            raise OperandError(
                f"indices from {chosen.min()} to {chosen.max()} along axis {axis} of {x.type}",
                rule=f"Gather: an index lies in {-size} … {size - 1}",
            )
        if chosen.ndim == 0:
            return x[(*[slice(None)] * axis, int(chosen))]
        if chosen.size and chosen.min() >= 0:
            rows: Expr = indices
        else:
            from explorer.core.tensor import tensor

            rows = tensor(np.where(chosen < 0, chosen + size, chosen))
    else:
        rows = where(indices < 0, indices + size, indices) if indices.dtype.kind == "i" else indices
    if axis == 0:
        return embedding(x, rows)
    front = (axis, *[a for a in range(x.ndim) if a != axis])
    found = embedding(transpose(x, front), rows)
    k = rows.ndim
    order = (*range(k, k + axis), *range(k), *range(k + axis, found.ndim))
    return transpose(found, order)
