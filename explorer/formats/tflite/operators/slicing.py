"""Slicing, splitting, gathering, padding and reversing of tensors."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import Array, normalize_axis
from explorer.formats.common.flat_indices import merge_indices
from explorer.formats.tflite.operators.reduce import axes_of
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Ints, Known, Unused
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.rearrange import flip
from explorer.ops.manipulation.reshape import expand_dims, reshape


@operator("STRIDED_SLICE", moves=True)
def strided_slice(
    input: Expr,
    begin: Known[Ints],
    end: Known[Ints],
    strides: Known[Ints],
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    offset: bool = False,
) -> Expr:
    """Return the slice from ``begin`` to ``end`` with ``strides``, one number for each axis.

    Bits of the masks omit a begin or an end, add a new axis, or remove an axis.
    """
    if not len(begin) == len(end) == len(strides) <= 2 * input.ndim + 1:
        raise OperandError(
            f"begin={begin}, end={end}, strides={strides} for {input.type}",
            rule="begin, end and strides must have the same length, which must not exceed the number of axes",
        )
    index: list[Any] = []
    for position, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << position
        if ellipsis_mask & bit:
            index.append(Ellipsis)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(first if not begin_mask & bit else 0 if step > 0 else -1)
        else:
            last = first + last if offset else last
            index.append(slice(None if begin_mask & bit else first, None if end_mask & bit else last, step))
    return input[tuple(index)]


@operator("SLICE", moves=True)
def slice_(input: Expr, begin: Known[Ints], size: Known[Ints]) -> Expr:
    """Return the slice that starts at ``begin`` and has the lengths ``size``; −1 means up to the end of an axis."""
    if not len(begin) == len(size) == input.ndim:
        raise OperandError(
            f"begin={begin}, size={size} for {input.type}", rule="there must be a begin and a size for each axis"
        )
    parts = [*zip(begin, size, input.shape, strict=True)]
    ends = [length if count == -1 else first + count for first, count, length in parts]
    if any(not 0 <= first <= last <= length for (first, _, length), last in zip(parts, ends, strict=True)):
        raise OperandError(f"begin={begin}, size={size} for {input.type}", rule="the slice must be in the tensor")
    return input[tuple([slice(first, last) for first, last in zip(begin, ends, strict=True)])]


@operator("SPLIT", moves=True)
def split(axis: Known[int], input: Expr, *, num_splits: int) -> tuple[Expr, ...]:
    """Return ``num_splits`` equal parts of ``input`` along ``axis``."""
    axis = normalize_axis(axis, input.ndim, "SPLIT")
    if num_splits < 1 or input.shape[axis] % num_splits:
        raise OperandError(f"num_splits={num_splits} for {input.type}", rule="the number of parts must divide the axis")
    claim_steps("SPLIT", num_splits)
    return _parts(input, axis, (input.shape[axis] // num_splits,) * num_splits)


@operator("SPLIT_V", moves=True)
def split_by_sizes(input: Expr, size_splits: Known[Ints], axis: Known[int], *, num_splits: Unused) -> tuple[Expr, ...]:
    """Return parts of ``input`` with lengths ``size_splits`` along ``axis``; one length may be −1 (the rest)."""
    axis = normalize_axis(axis, input.ndim, "SPLIT_V")
    rest = input.shape[axis] - sum(size for size in size_splits if size != -1)
    lengths = tuple([rest if size == -1 else size for size in size_splits])
    if size_splits.count(-1) > 1 or min(lengths, default=0) < 0 or sum(lengths) != input.shape[axis]:
        raise OperandError(f"size_splits={size_splits} for {input.type}", rule="the parts must cover the whole axis")
    return _parts(input, axis, lengths)


def _parts(x: Expr, axis: int, lengths: tuple[int, ...]) -> tuple[Expr, ...]:
    parts, first = [], 0
    for length in lengths:
        parts.append(x[(*[slice(None)] * axis, slice(first, first + length))])
        first += length
    return tuple(parts)


@operator("GATHER", moves=True)
def gather(input: Expr, indices: Expr, *, axis: int = 0, batch_dims: Literal[0] = 0) -> Expr:
    """Return the elements of ``input`` at ``indices`` along ``axis``."""
    return take(input, indices, normalize_axis(axis, input.ndim, "GATHER"))


@operator("EMBEDDING_LOOKUP", moves=True)
def embedding_lookup(indices: Expr, table: Expr) -> Expr:
    """Return the rows of ``table`` at ``indices``."""
    return take(table, indices, 0)


@operator("PAD", moves=True)
def pad_(op: OperatorContext, input: Expr, paddings: Known[Array]) -> Expr:
    """Return ``input`` padded with zeros. A quantised input is padded with its zero point, which represents 0."""
    return pad(input, _widths(input, paddings), constant_values=op.argument("input.zero_point", 0))


@operator("PADV2", moves=True)
def pad_with_value(input: Expr, paddings: Known[Array], constant_values: Known[float]) -> Expr:
    """Return ``input`` padded with the value ``constant_values``."""
    return pad(input, _widths(input, paddings), constant_values=constant_values)


@operator("MIRROR_PAD", moves=True)
def mirror_pad(input: Expr, paddings: Known[Array], *, mode: Literal["REFLECT", "SYMMETRIC"] = "REFLECT") -> Expr:
    """Return ``input`` padded by reflection; SYMMETRIC repeats the outermost element, and REFLECT does not."""
    x, widths = input, _widths(input, paddings)
    if mode == "REFLECT":
        return pad(x, widths, mode="reflect")
    if any(max(pair) > length for pair, length in zip(widths, x.shape, strict=True)):
        raise OperandError(
            f"mode={mode}, paddings={widths} for {x.type}", rule="paddings must not exceed the lengths of the axes"
        )
    for axis, (before, after) in enumerate(widths):
        front = (slice(None),) * axis
        parts = [
            *[flip(x[(*front, slice(0, before))], axis)] * bool(before),
            x,
            *[flip(x[(*front, slice(x.shape[axis] - after, None))], axis)] * bool(after),
        ]
        x = concatenate(parts, axis) if len(parts) > 1 else x
    return x


def _widths(x: Expr, paddings: Array) -> tuple[tuple[int, int], ...]:
    """Return the number of elements that ``paddings`` adds before and after each axis."""
    if paddings.shape != (x.ndim, 2) or paddings.min(initial=0) < 0 or paddings.dtype.kind not in "iu":
        raise OperandError(
            f"paddings={paddings.tolist()} for {x.type}",
            rule="paddings must contain two nonnegative numbers for each axis",
        )
    return tuple([(int(before), int(after)) for before, after in paddings.tolist()])


@operator("REVERSE_V2", moves=True)
def reverse(input: Expr, axis: Known[Ints]) -> Expr:
    """Return ``input`` with the axes ``axis`` reversed."""
    return flip(input, axes_of(axis, input))


@operator("GATHER_ND", moves=True)
def gather_nd(input: Expr, indices: Expr) -> Expr:
    """Return slices of ``input``; each row of ``indices`` contains the indices of one slice along the first axes."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= input.ndim:
        raise OperandError(
            f"indices {indices.type} into {input.type}",
            rule="a row must have at least one index, and at most one for each axis of the input",
        )
    positions = merge_indices([indices[..., axis] for axis in range(depth)], input.shape[:depth])
    return take(reshape(input, (prod(input.shape[:depth]), *input.shape[depth:])), positions, 0)


@operator("ONE_HOT")
def one_hot(indices: Expr, depth: Known[int], on_value: Expr, off_value: Expr, *, axis: int = -1) -> Expr:
    """Return rows of length ``depth`` with ``on_value`` at the index and ``off_value`` elsewhere.

    An index outside the row has no effect.
    """
    are_scalars = on_value.dtype == off_value.dtype and on_value.size == off_value.size == 1
    if depth < 0 or not are_scalars or indices.dtype.kind not in "iu":
        raise OperandError(
            f"indices {indices.type}, depth={depth}, on_value {on_value.type}, off_value {off_value.type}",
            rule="indices must be integers, depth ≥ 0, and on_value and off_value scalars of the same dtype",
        )
    axis = normalize_axis(axis, indices.ndim + 1, "ONE_HOT")
    claim_constant("ONE_HOT", depth)
    # int64, since a narrow dtype may not represent all indices
    numbers = np.arange(depth).reshape(depth, *[1] * (indices.ndim - axis))
    return where(expand_dims(indices, axis) == numbers, reshape(on_value, ()), reshape(off_value, ()))
