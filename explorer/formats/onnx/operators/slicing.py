"""Operators that slice, index, split, concatenate and pad tensors.

Starts, ends, sizes and widths were attributes and became inputs between opsets 10 and 13; both are read by name. Known
indices are checked while the net is built, and computed indices at run time.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.flat_indices import merge_indices
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import fold, is_known, value_of
from explorer.net.operators.signature import Ints, Known, Outputs
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take, take_along_axis
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.reshape import cast, expand_dims, reshape
from explorer.record.reasons import counted_text


@operator("Concat")
def concat(*inputs: Expr, axis: int) -> Expr:
    """Concatenate tensors along an axis."""
    return concatenate(inputs, axis)


@operator("Split")
def split(
    input: Expr,
    split: Known[Ints] | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Split an axis into parts of given lengths, by default into equal parts, one per output.

    If the parts cannot be equal, the last part is shorter.
    """
    axis = normalize_axis(axis, input.ndim, "Split")
    length = input.shape[axis]
    if split is None:
        count = outputs if num_outputs is None else num_outputs
        if count < 1:
            raise OperandError(f"num_outputs={count}", rule="Split must make at least one part")
        claim_steps("Split", count)
        part = -(-length // count)
        split = tuple([min(part, length - start * part) for start in range(count)])
    if sum(split) != length or min(split, default=0) < 0:
        raise OperandError(f"split={split} of {input.type}", rule=f"Split: the sizes must add up to {length}")
    ends = np.cumsum(split).tolist()
    return tuple([input[(*[slice(None)] * axis, slice(end - n, end))] for end, n in zip(ends, split, strict=True)])


@operator("Slice")
def slice_(
    data: Expr,
    starts: Known[Ints],
    ends: Known[Ints],
    axes: Known[Ints] | None = None,
    steps: Known[Ints] | None = None,
) -> Expr:
    """Slice axes; bounds beyond an axis are clamped to its ends, and steps may be negative."""
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = steps or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise OperandError(
            f"starts={starts}, ends={ends}, axes={axes}, steps={steps}",
            rule="Slice: there must be one start, end and step for each axis",
        )
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise OperandError(f"steps={steps}", rule="Slice: a step must not be 0")
        axis = normalize_axis(axis, data.ndim, "Slice")
        # with a negative step, a start before the first element means the first element, but NumPy excludes it
        is_before = step < 0 and start < -data.shape[axis] and data.shape[axis]
        index[axis] = slice(0 if is_before else start, end, step)
    return data[tuple(index)]


@operator("Gather")
def gather(data: Expr, indices: Expr, *, axis: int = 0) -> Expr:
    """Return the slices of ``data`` at ``indices`` along ``axis``; a negative index counts from the end."""
    axis = normalize_axis(axis, data.ndim, "Gather")
    if is_known(indices) and indices.ndim == 0:
        return data[(*[slice(None)] * axis, int(value_of(indices)))]
    return take(data, _checked_indices(indices, data.shape[axis]), axis)


@operator("GatherElements")
def gather_elements(data: Expr, indices: Expr, *, axis: int = 0) -> Expr:
    """Return elements of ``data`` at ``indices`` along ``axis``; positions along the other axes are unchanged."""
    axis = normalize_axis(axis, data.ndim, "GatherElements")
    if indices.ndim == data.ndim:
        # cut the other axes to the lengths of the indices, because indices are not broadcast
        first_rows = [slice(None) if other == axis else slice(size) for other, size in enumerate(indices.shape)]
        if any(size > data.shape[other] for other, size in enumerate(indices.shape) if other != axis):
            raise OperandError(
                f"indices {indices.type} into {data.type} along axis {axis}",
                rule="GatherElements: indices must not be longer than data along another axis",
            )
        data = data[tuple(first_rows)]
    return take_along_axis(data, _checked_indices(indices, data.shape[axis]), axis)


def _checked_indices(indices: Expr, size: int) -> Expr:
    """Return indices into an axis of length ``size``; known indices are checked and made nonnegative."""
    if indices.dtype.kind == "u" or not is_known(indices):
        return indices
    chosen = value_of(indices)
    if chosen.size and not (-size <= chosen.min() and chosen.max() < size):
        raise OperandError(
            f"indices from {chosen.min()} to {chosen.max()} into an axis of size {size}",
            rule=f"an index must be in {-size} … {size - 1}",
        )
    return tensor(np.where(chosen < 0, chosen + size, chosen)) if chosen.size and chosen.min() < 0 else indices


@operator("GatherND")
def gather_nd(op: OperatorContext, data: Expr, indices: Expr, *, batch_dims: int = 0) -> Any:
    """Return slices of ``data``; each row of ``indices`` is the index of a slice after the batch axes."""
    if batch_dims:
        return delegated(op)
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= data.ndim:
        raise OperandError(
            f"indices {indices.type} into {data.type}",
            rule="GatherND: a row of indices must have at most as many numbers as the data has axes",
        )
    parts = [indices[..., axis] for axis in range(depth)]
    flat = merge_indices(parts, data.shape[:depth])
    if is_known(indices):
        for axis, part in enumerate(parts):
            _checked_indices(fold(part), data.shape[axis])
        flat = fold(flat)
    return take(reshape(data, (prod(data.shape[:depth]), *data.shape[depth:])), flat, 0)


@operator("Pad")
def pad_(
    data: Expr,
    pads: Known[Ints],
    constant_value: Known[float] | None = None,
    axes: Known[Ints] | None = None,
    *,
    mode: Literal["constant", "reflect", "edge", "wrap"] = "constant",
    value: float = 0,
) -> Expr:
    """Pad all or some axes at both ends; negative widths remove elements."""
    padded = range(data.ndim) if axes is None else [normalize_axis(axis, data.ndim, "Pad") for axis in axes]
    if len(pads) != 2 * len(padded):
        raise OperandError(
            f"pads={pads} for {counted_text(len(padded), 'axis', 'axes')}",
            rule="Pad: there must be two widths for each axis",
        )
    sides = [(0, 0)] * data.ndim
    for index, axis in enumerate(padded):
        sides[axis] = pads[index], pads[index + len(padded)]
    return pad(data, tuple(sides), mode, value if constant_value is None else constant_value)


@operator("OneHot")
def one_hot(indices: Expr, depth: Known[int], values: Expr, *, axis: int = -1) -> Expr:
    """Return rows with one value at the index and another elsewhere; an index outside the row sets nothing."""
    # the cast truncates fractions, and keeps indices of narrow dtypes from wrapping around
    indices = cast(indices, np.dtype(np.int64))
    axis = normalize_axis(axis, indices.ndim + 1, "OneHot")
    if depth < 1:
        raise OperandError(f"depth={depth}", rule="OneHot: depth must be 1 or more")
    claim_constant("OneHot", depth)
    steps = np.arange(depth, dtype=np.int64).reshape(depth, *[1] * (indices.ndim - axis))
    column = expand_dims(indices, axis)
    # a negative index counts from the end
    chosen = (column == steps) | (column == steps - depth)
    return where(chosen, values[1], values[0])
