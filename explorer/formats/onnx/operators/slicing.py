"""Parts of tensors: slices, rows, pieces; and tensors joined or surrounded.

Starts, ends, sizes and widths are inputs since opset 10 to 13 and attributes before; both are read by name. Indices
that are computed by the net gather at run time; those that are known are checked against the axis while it is built.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.flat_places import flat_places
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.operator_inputs import axis_of, first
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import (
    fold,
    integers,
    is_given,
    is_known,
    members,
    number,
    optional_integers,
    required,
    value_of,
    whole,
)
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take, take_along_axis
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.reshape import cast, expand_dims, reshape
from explorer.record.reasons import counted_text


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
        if count < 1:
            raise OperandError(f"num_outputs={count}", rule="Split must make at least one part")
        claim_steps("Split", count)
        length = -(-x.shape[axis] // count)
        sizes = tuple([min(length, x.shape[axis] - start * length) for start in range(count)])
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise OperandError(f"split={sizes} of {x.type}", rule=f"Split: the sizes must add up to {x.shape[axis]}")
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
            f"starts={starts}, ends={ends}, axes={axes}, steps={steps}",
            rule="Slice: there must be one start, end and step for each axis",
        )
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes or (), steps, strict=True):
        if step == 0:
            raise OperandError(f"steps={steps}", rule="Slice: a step must not be 0")
        place = normalize_axis(axis, x.ndim, "Slice")
        # back from a start before the first row: from the first row on, which NumPy leaves out
        is_before = step < 0 and start < -x.shape[place] and x.shape[place]
        index[place] = slice(0 if is_before else start, end, step)
    return x[tuple(index)]


@operator("Gather")
def gather(op: OperatorContext) -> Expr:
    """The parts of an axis at some indices; a negative index counts from the end."""
    x, indices = required(op, "data"), required(op, "indices")
    axis = axis_of(op, x, 0)
    if is_known(indices) and indices.ndim == 0:
        return x[(*[slice(None)] * axis, int(value_of(indices)))]
    return take(x, _checked(op, indices, x.shape[axis]), axis)


@operator("GatherElements")
def gather_elements(op: OperatorContext) -> Expr:
    """For each index the element of its row at that place of an axis."""
    x, indices = required(op, "data"), required(op, "indices")
    axis = axis_of(op, x, 0)
    if indices.ndim == x.ndim:
        # only the first rows of other axes are taken, as many as there are indices: one index is not repeated
        first_rows = [slice(None) if place == axis else slice(size) for place, size in enumerate(indices.shape)]
        if any(size > x.shape[place] for place, size in enumerate(indices.shape) if place != axis):
            raise OperandError(
                f"indices {indices.type} into {x.type} along axis {axis}",
                rule="GatherElements: there must be at most as many indices along another axis as elements",
            )
        x = x[tuple(first_rows)]
    return take_along_axis(x, _checked(op, indices, x.shape[axis]), axis)


def _checked(op: OperatorContext, indices: Expr, size: int) -> Expr:
    """Return indices into an axis of a size: known ones are checked, and counted from its front.

    Others may be negative. They are checked in the run, by the operation that reads them.
    """
    if indices.dtype.kind == "u" or not is_known(indices):
        return indices
    chosen = value_of(indices)
    if chosen.size and not (-size <= chosen.min() and chosen.max() < size):
        raise OperandError(
            f"indices from {chosen.min()} to {chosen.max()} into an axis of size {size}",
            rule=f"{op.definition.type}: an index must lie in {-size} … {size - 1}",
        )
    return tensor(np.where(chosen < 0, chosen + size, chosen)) if chosen.size and chosen.min() < 0 else indices


@operator("GatherND")
def gather_parts(op: OperatorContext) -> Any:
    """Parts at rows of indices into the first axes, or into those behind the axes of a batch."""
    if op.integer("batch_dims", 0):
        return delegated(op)
    x, indices = required(op, "data"), required(op, "indices")
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= x.ndim:
        raise OperandError(
            f"indices {indices.type} into {x.type}",
            rule="GatherND: a row of indices must have at most as many numbers as the data has axes",
        )
    parts = [indices[..., axis] for axis in range(depth)]
    if is_known(indices):
        for axis, part in enumerate(parts):
            _checked(op, fold(part), x.shape[axis])
    flat = fold(flat_places(parts, x.shape[:depth])) if is_known(indices) else flat_places(parts, x.shape[:depth])
    return take(reshape(x, (prod(x.shape[:depth]), *x.shape[depth:])), flat, 0)


@operator("Pad")
def pad_(op: OperatorContext) -> Expr:
    """Elements before and after those of each axis, or of some axes; negative widths take elements away."""
    x, widths = first(op), integers(op, "pads")
    axes = optional_integers(op, "axes") if is_given(op, "axes") else tuple(range(x.ndim))
    places = [normalize_axis(axis, x.ndim, "Pad") for axis in axes or ()]
    if len(widths) != 2 * len(places):
        raise OperandError(
            f"pads={widths} for {counted_text(len(places), 'axis', 'axes')}",
            rule="Pad: there must be two widths for each axis",
        )
    sides = [(0, 0)] * x.ndim
    for index, place in enumerate(places):
        sides[place] = widths[index], widths[index + len(places)]
    mode = op.word("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    fill = next((number(op, name) for name in ("constant_value", "value") if is_given(op, name)), 0)
    return pad(x, tuple(sides), mode, fill)


@operator("OneHot")
def one_hot(op: OperatorContext) -> Expr:
    """Rows with one value at an index and another elsewhere; an index outside the row chooses nothing."""
    depth, values = whole(op, "depth"), required(op, "values")
    # a fraction is cut off; and places beyond the range of a narrow dtype are not those of small indices
    indices = cast(required(op, "indices"), np.dtype(np.int64))
    axis = normalize_axis(op.integer("axis", -1), indices.ndim + 1, "OneHot")
    if depth < 1:
        raise OperandError(f"depth={depth}", rule="OneHot: depth must be 1 or more")
    claim_constant("OneHot", depth)
    steps = np.arange(depth, dtype=np.int64).reshape(depth, *[1] * (indices.ndim - axis))
    places = expand_dims(indices, axis)
    # an index −k counts from the end: it equals step − depth
    chosen = (places == steps) | (places == steps - depth)
    return where(chosen, values[1], values[0])
