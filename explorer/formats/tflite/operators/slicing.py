"""Parts of tensors: slices, splits, elements by number, padding, and reversed axes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.flat_places import flat_places
from explorer.formats.tflite.operators.reduce import axes_of
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, is_given, known, number, required, whole
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.rearrange import flip
from explorer.ops.manipulation.reshape import expand_dims, reshape


@operator("STRIDED_SLICE", moves=True)
def strided_slice(op: OperatorContext) -> Expr:
    """A part by begin, end and stride of each axis, as an index of NumPy: masks leave ends open, and take axes away."""
    x = required(op, "input")
    begin, end, strides = integers(op, "begin"), integers(op, "end"), integers(op, "strides")
    if not len(begin) == len(end) == len(strides) <= 2 * x.ndim + 1:
        raise OperandError(
            f"begin={begin}, end={end}, strides={strides} for {x.type}",
            rule="STRIDED_SLICE: begin, end and strides must be as long, and at most as long as there are axes",
        )
    masks = {name: op.integer(f"{name}_mask", 0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    is_offset = op.flag("offset", False)
    index: list[Any] = []
    for place, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        marks = {name for name, mask in masks.items() if mask >> place & 1}
        if "ellipsis" in marks:
            index.append(Ellipsis)
        elif "new_axis" in marks:
            index.append(None)
        elif "shrink_axis" in marks:
            index.append(first if "begin" not in marks else 0 if step > 0 else -1)
        else:
            last = first + last if is_offset else last
            index.append(slice(None if "begin" in marks else first, None if "end" in marks else last, step))
    return x[tuple(index)]


@operator("SLICE", moves=True)
def slice_(op: OperatorContext) -> Expr:
    """A part by begin and size of each axis; −1 is all that is left."""
    x, begin, size = required(op, "input"), integers(op, "begin"), integers(op, "size")
    if not len(begin) == len(size) == x.ndim:
        raise OperandError(
            f"begin={begin}, size={size} for {x.type}", rule="SLICE: there must be a begin and a size for each axis"
        )
    ends = [length if count == -1 else first + count for first, count, length in zip(begin, size, x.shape, strict=True)]
    if any(not 0 <= first <= last <= length for first, last, length in zip(begin, ends, x.shape, strict=True)):
        raise OperandError(f"begin={begin}, size={size} for {x.type}", rule="SLICE: the part must lie in the tensor")
    return x[tuple([slice(first, last) for first, last in zip(begin, ends, strict=True)])]


@operator("SPLIT", moves=True)
def split(op: OperatorContext) -> tuple[Expr, ...]:
    """Equal parts of an axis."""
    x, count = required(op, "input"), op.integer("num_splits")
    axis = normalize_axis(whole(op, "axis"), x.ndim, "SPLIT")
    if count < 1 or x.shape[axis] % count:
        raise OperandError(f"num_splits={count} for {x.type}", rule="SPLIT: the number of parts must divide the axis")
    claim_steps("SPLIT", count)
    return _parts(x, axis, (x.shape[axis] // count,) * count)


@operator("SPLIT_V", moves=True, ignored=("num_splits",))
def split_by_sizes(op: OperatorContext) -> tuple[Expr, ...]:
    """Parts of an axis by their lengths, of which one may be −1: what is left."""
    x, sizes = required(op, "input"), integers(op, "size_splits")
    axis = normalize_axis(whole(op, "axis"), x.ndim, "SPLIT_V")
    rest = x.shape[axis] - sum(size for size in sizes if size != -1)
    lengths = tuple([rest if size == -1 else size for size in sizes])
    if sizes.count(-1) > 1 or min(lengths, default=0) < 0 or sum(lengths) != x.shape[axis]:
        raise OperandError(f"size_splits={sizes} for {x.type}", rule="SPLIT_V: the parts must be the whole axis")
    return _parts(x, axis, lengths)


def _parts(x: Expr, axis: int, lengths: tuple[int, ...]) -> tuple[Expr, ...]:
    parts, first = [], 0
    for length in lengths:
        parts.append(x[(*[slice(None)] * axis, slice(first, first + length))])
        first += length
    return tuple(parts)


@operator("GATHER", moves=True)
def gather(op: OperatorContext) -> Expr:
    """Elements along an axis by their numbers."""
    op.only("batch_dims", 0)
    x = required(op, "input")
    return take(x, required(op, "indices"), normalize_axis(op.integer("axis", 0), x.ndim, "GATHER"))


@operator("EMBEDDING_LOOKUP", moves=True)
def embedding_lookup(op: OperatorContext) -> Expr:
    """Rows of a table by their numbers."""
    return take(required(op, "table"), required(op, "indices"), 0)


@operator("PAD", "PADV2", moves=True)
def pad_(op: OperatorContext) -> Expr:
    """Zeros, or another value, around a tensor."""
    zero = op.argument("input.zero_point", 0)  # the whole number that stands for 0
    value = number(op, "constant_values") if is_given(op, "constant_values") else zero
    return pad(required(op, "input"), _widths(op), constant_values=value)


@operator("MIRROR_PAD", moves=True)
def mirror_pad(op: OperatorContext) -> Expr:
    """The tensor reflected at its ends, without the outermost element (REFLECT) or with it (SYMMETRIC)."""
    x, widths, mode = required(op, "input"), _widths(op), op.argument("mode", "REFLECT")
    if mode == "REFLECT":
        return pad(x, widths, mode="reflect")
    if mode != "SYMMETRIC" or any(max(pair) > length for pair, length in zip(widths, x.shape, strict=True)):
        raise OperandError(
            f"mode={mode!r}, paddings={widths} for {x.type}",
            rule="MIRROR_PAD: mode must be REFLECT or SYMMETRIC, with at most as many elements as there are",
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


def _widths(op: OperatorContext) -> tuple[tuple[int, int], ...]:
    """Return how many elements are added before and after each axis."""
    x, widths = required(op, "input"), known(op, "paddings")
    if widths.shape != (x.ndim, 2) or widths.min(initial=0) < 0 or widths.dtype.kind not in "iu":
        raise OperandError(
            f"paddings={widths.tolist()} for {x.type}",
            rule=f"{op.definition.type}: there must be two numbers of elements for each axis, 0 or more",
        )
    return tuple([(int(before), int(after)) for before, after in widths.tolist()])


@operator("REVERSE_V2", moves=True)
def reverse(op: OperatorContext) -> Expr:
    """Axes from their end."""
    x = required(op, "input")
    return flip(x, axes_of(op, x))


@operator("GATHER_ND", moves=True)
def gather_parts(op: OperatorContext) -> Expr:
    """Parts at rows of indices into the first axes."""
    x, indices = required(op, "input"), required(op, "indices")
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= x.ndim:
        raise OperandError(
            f"indices {indices.type} into {x.type}",
            rule="GATHER_ND: a row of indices must have at most as many numbers as the input has axes",
        )
    places = flat_places([indices[..., axis] for axis in range(depth)], x.shape[:depth])
    return take(reshape(x, (prod(x.shape[:depth]), *x.shape[depth:])), places, 0)


@operator("ONE_HOT")
def one_hot(op: OperatorContext) -> Expr:
    """Rows with one value at an index and another elsewhere; an index outside the row chooses nothing."""
    indices, depth = required(op, "indices"), whole(op, "depth")
    on, off = required(op, "on_value"), required(op, "off_value")
    if depth < 0 or on.dtype != off.dtype or on.size != 1 or off.size != 1 or indices.dtype.kind not in "iu":
        raise OperandError(
            f"indices {indices.type}, depth={depth}, on_value {on.type}, off_value {off.type}",
            rule="ONE_HOT: indices must be whole numbers, depth 0 or more, and both values one number of one dtype",
        )
    axis = normalize_axis(op.integer("axis", -1), indices.ndim + 1, "ONE_HOT")
    claim_constant("ONE_HOT", depth)
    # int64: a narrow dtype does not hold each of them
    numbers = np.arange(depth).reshape(depth, *[1] * (indices.ndim - axis))
    return where(expand_dims(indices, axis) == numbers, reshape(on, ()), reshape(off, ()))
