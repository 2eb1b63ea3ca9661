"""Elements in another order or repeated: compositions of the operations that move elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.memory_budget import claim_constant
from explorer.core.registry import public
from explorer.core.types.tensor_type import Shape, normalize_axes, normalize_axis, whole
from explorer.ops.base import broadcast_to, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation import reshape as movement
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.reshape import transpose, vector_of_scalar
from explorer.ops.manipulation.slicing import getitem, part_of, whole_of


@public
def flip(x: Any, axis: int | tuple[int, ...] | None = None) -> Expr:
    """``x`` with its elements in reverse order along axes, along all of them for None."""
    (x,) = as_operands((x,))
    turned = normalize_axes(axis, x.ndim, "flip")
    return getitem(x, tuple([slice(None, None, -1 if i in turned else 1) for i in range(x.ndim)]))


@public
def roll(x: Any, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Expr:
    """``x`` with its elements moved along axes, those that leave at the end entering at the front."""
    (x,) = as_operands((x,))
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), _total(shift), 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise OperandError(f"roll: shifts {shift!r} along the axes {axis!r}", rule="there is one shift for each axis")
    y: Expr = x
    for one, by in zip(axes, shifts, strict=True):
        place = normalize_axis(one, y.ndim, "roll")
        size = y.shape[place]
        start = -whole(by, "roll: shift") % size if size else 0
        if start:
            front = [slice(None)] * place
            y = concatenate((part_of(y, (*front, slice(start, None))), part_of(y, (*front, slice(start)))), place)
    return whole_of(x) if y is x else y


def _total(shift: Any) -> int:
    items = shift if isinstance(shift, (tuple, list)) else (shift,)
    return sum([whole(item, "roll: shift") for item in items])


@public
def tile(x: Any, reps: int | tuple[int, ...]) -> Expr:
    """``x`` as a whole repeated ``reps[i]`` times along axis i, aligned at the last axes."""
    (x,) = as_operands((x,))
    given = reps if isinstance(reps, (tuple, list)) else (reps,)
    counts = [_count(count, "tile") for count in given]
    rank = max(len(counts), x.ndim)
    if rank == x.ndim and set(counts) <= {1}:
        return movement.broadcast_to(x, x.shape)
    counts = [1] * (rank - len(counts)) + counts
    sizes = [1] * (rank - x.ndim) + list(x.shape)
    paired = list(zip(counts, sizes, strict=True))
    wide = broadcast_to(reshape(x, tuple([n for _, size in paired for n in (1, size)])), _merged(paired))
    return reshape(wide, tuple([count * size for count, size in paired]))


@public
def repeat(x: Any, repeats: int, axis: int | None = None) -> Expr:
    """Each element of ``x`` repeated along an axis, of the flattened ``x`` for None."""
    (x,) = as_operands((x,))
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    x = vector_of_scalar(x, axis)
    place, count = normalize_axis(axis, x.ndim, "repeat"), _count(repeats, "repeat")
    if count == 1:
        return movement.broadcast_to(x, x.shape)
    front, size, back = x.shape[:place], x.shape[place], x.shape[place + 1 :]
    wide = broadcast_to(reshape(x, (*front, size, 1, *back)), (*front, size, count, *back))
    return reshape(wide, (*front, size * count, *back))


def _count(value: Any, operation: str) -> int:
    count = whole(value, f"{operation}: a number of repetitions")
    if count < 0:
        raise OperandError(f"{operation}: {count} repetitions", rule="a number of repetitions is not negative")
    return count


def _merged(paired: list[tuple[int, int]]) -> Shape:
    return tuple([n for pair in paired for n in pair])


@public
def tril(x: Any, k: int = 0) -> Expr:
    """The matrices of the last two axes with zeros above the k-th diagonal; a vector is each row of a square one."""
    return _triangle(x, k, "tril", lower=True)


@public
def triu(x: Any, k: int = 0) -> Expr:
    """The matrices of the last two axes with zeros below the k-th diagonal; a vector is each row of a square one."""
    return _triangle(x, k, "triu", lower=False)


def _triangle(x: Any, k: int, operation: str, lower: bool) -> Expr:
    (x,) = as_operands((x,))
    if x.ndim < 1:
        raise OperandError(
            f"{operation}: given {x.type}", rule="the operand must have an axis at least", fix="x.reshape(1, 1)"
        )
    offset = whole(k, f"{operation}: the diagonal")
    rows, columns = x.shape[-2:] if x.ndim > 1 else x.shape * 2
    offset = min(max(offset, -rows), columns + 1)
    claim_constant(f"{operation} of {x.type}", rows * columns, 1)
    inside = np.tri(rows, columns, offset, bool) if lower else ~np.tri(rows, columns, offset - 1, bool)
    return where(inside, x, False if x.dtype.kind == "b" else 0)


@public
def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Expr:
    """``x`` with axes at other places, the rest in their order."""
    (x,) = as_operands((x,))
    sources, destinations = (
        [normalize_axis(axis, x.ndim, "moveaxis") for axis in (given if isinstance(given, (tuple, list)) else (given,))]
        for given in (source, destination)
    )
    if (
        len(set(sources)) != len(sources)
        or len(set(destinations)) != len(destinations)
        or len(sources) != len(destinations)
    ):
        raise OperandError(
            f"moveaxis: from {source!r} to {destination!r}", rule="each axis that is moved has one place of its own"
        )
    rest = iter([axis for axis in range(x.ndim) if axis not in sources])
    wanted = dict(zip(destinations, sources, strict=True))
    return transpose(x, tuple([wanted[place] if place in wanted else next(rest) for place in range(x.ndim)]))


@public
def pixel_shuffle(x: Any, factor: int) -> Expr:
    """(N, C·r², H, W) to (N, C, H·r, W·r): channels become the pixels of r × r squares (``factor`` r)."""
    (x,) = as_operands((x,))
    r = _factor(x, factor, "pixel_shuffle")
    n, c, h, w = x.shape
    if c % (r * r):
        raise OperandError(f"pixel_shuffle: {c} channels by {r}", rule=f"the channels divide by {r * r}")
    squares = transpose(reshape(x, (n, c // (r * r), r, r, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(squares, (n, c // (r * r), h * r, w * r))


@public
def pixel_unshuffle(x: Any, factor: int) -> Expr:
    """(N, C, H·r, W·r) to (N, C·r², H, W): the inverse of ``pixel_shuffle``."""
    (x,) = as_operands((x,))
    r = _factor(x, factor, "pixel_unshuffle")
    n, c, h, w = x.shape
    if h % r or w % r:
        raise OperandError(f"pixel_unshuffle: images {h}×{w} by {r}", rule=f"rows and columns divide by {r}")
    squares = transpose(reshape(x, (n, c, h // r, r, w // r, r)), (0, 1, 3, 5, 2, 4))
    return reshape(squares, (n, c * r * r, h // r, w // r))


@public
def channel_shuffle(x: Any, groups: int) -> Expr:
    """(N, C, …) with its channels dealt out: group after group becomes one of each group in turn."""
    (x,) = as_operands((x,))
    count = whole(groups, "channel_shuffle: groups")
    if x.ndim < 2 or count < 1 or x.shape[1] % count:
        raise OperandError(
            f"channel_shuffle: {count} groups of {x.type}", rule="the channels, axis 1, divide among them"
        )
    split = reshape(x, (x.shape[0], count, x.shape[1] // count, math.prod(x.shape[2:])))
    return reshape(transpose(split, (0, 2, 1, 3)), x.shape)


def _factor(x: Expr, factor: int, operation: str) -> int:
    found = whole(factor, f"{operation}: factor")
    if x.ndim != 4 or found < 1:
        raise OperandError(f"{operation}: {x.type} by {factor!r}", rule="images are (N, C, H, W), the factor is ≥ 1")
    return found
