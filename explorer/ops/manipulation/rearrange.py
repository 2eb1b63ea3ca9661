"""Reordering and repetition of elements, recorded as slices, reshapes and concatenations.

(ONNX: Tile, Trilu, DepthToSpace, SpaceToDepth; PNNX: torch.flip, torch.roll, nn.PixelShuffle and similar.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.argument_checks import check_integer
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.memory_budget import claim_constant
from explorer.core.registry import public
from explorer.core.types.tensor_type import Shape, as_integer, normalize_axes, normalize_axis
from explorer.ops.base import broadcast_to, check_axes, check_groups, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation import reshape as movement
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.reshape import transpose, vector_of_scalar
from explorer.ops.manipulation.slicing import getitem, part_of, whole_of

__all__ = [
    "channel_shuffle",
    "flip",
    "moveaxis",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat",
    "roll",
    "tile",
    "tril",
    "triu",
]


@public
def flip(x: Any, axis: int | tuple[int, ...] | None = None) -> Expr:
    """Reverse the order of elements along ``axis``: one axis, several axes, or all axes if it is None.

    >>> ex.evaluate(ex.flip(np.array([1, 2, 3])))
    array([3, 2, 1])
    """
    (x,) = as_operands((x,))
    flipped = normalize_axes(axis, x.ndim, "flip")
    return getitem(x, tuple([slice(None, None, -1 if i in flipped else 1) for i in range(x.ndim)]))


@public
def roll(x: Any, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Expr:
    """Shift elements along axes; elements shifted beyond the end wrap around to the front.

    >>> ex.evaluate(ex.roll(np.array([1.0, 2.0, 3.0]), 1))
    array([3., 1., 2.])
    """
    (x,) = as_operands((x,))
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), _total(shift), 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise OperandError(
            f"roll: shifts {shift!r} along the axes {axis!r}",
            rule="there must be one shift for each axis",
            fix="ex.roll(x, (1, 2), axis=(0, 1)); without axis, x is rolled as if flattened",
        )
    y: Expr = x
    for single_axis, by in zip(axes, shifts, strict=True):
        position = normalize_axis(single_axis, y.ndim, "roll")
        size = y.shape[position]
        # Python's % gives 0 … size − 1 for shifts of any sign and length
        start = -as_integer(by, "roll: shift") % size if size else 0
        if start:
            front = [slice(None)] * position
            y = concatenate((part_of(y, (*front, slice(start, None))), part_of(y, (*front, slice(start)))), position)
    return whole_of(x) if y is x else y


def _total(shift: Any) -> int:
    items = shift if isinstance(shift, (tuple, list)) else (shift,)
    return sum([as_integer(item, "roll: shift") for item in items])


@public
def tile(x: Any, reps: int | tuple[int, ...]) -> Expr:
    """Repeat ``x`` as a whole, ``reps[i]`` times along axis i.

    If ``reps`` has fewer entries, they apply to the last axes.

    >>> ex.evaluate(ex.tile(np.array([1, 2]), 2))
    array([1, 2, 1, 2])
    """
    (x,) = as_operands((x,))
    repetitions = reps if isinstance(reps, (tuple, list)) else (reps,)
    counts = [_count(count, "tile") for count in repetitions]
    rank = max(len(counts), x.ndim)
    if rank == x.ndim and set(counts) <= {1}:
        return movement.broadcast_to(x, x.shape)
    counts = [1] * (rank - len(counts)) + counts
    sizes = [1] * (rank - x.ndim) + list(x.shape)
    paired = list(zip(counts, sizes, strict=True))
    # repeat the whole tensor: insert an axis of size 1 before each axis, broadcast it and merge both axes
    wide = broadcast_to(reshape(x, tuple([n for _, size in paired for n in (1, size)])), _merged(paired))
    return reshape(wide, tuple([count * size for count, size in paired]))


@public
def repeat(x: Any, repeats: int, axis: int | None = None) -> Expr:
    """Repeat each element of ``x`` along ``axis``; if the axis is None, ``x`` is flattened first.

    >>> ex.evaluate(ex.repeat(np.array([1, 2]), 2))
    array([1, 1, 2, 2])
    """
    (x,) = as_operands((x,))
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    x = vector_of_scalar(x, axis)
    position, count = normalize_axis(axis, x.ndim, "repeat"), _count(repeats, "repeat")
    if count == 1:
        return movement.broadcast_to(x, x.shape)
    front, size, back = x.shape[:position], x.shape[position], x.shape[position + 1 :]
    # repeat each element: insert an axis of size 1 after the axis, broadcast it and merge both axes
    wide = broadcast_to(reshape(x, (*front, size, 1, *back)), (*front, size, count, *back))
    return reshape(wide, (*front, size * count, *back))


def _count(value: Any, operation: str) -> int:
    count = as_integer(value, f"{operation}: a number of repetitions")
    if count < 0:
        raise OperandError(
            f"{operation}: {count} repetitions",
            rule="the number of repetitions must not be negative",
            fix="1 keeps the operand as it is, 0 gives an empty one",
        )
    return count


def _merged(paired: list[tuple[int, int]]) -> Shape:
    return tuple([n for pair in paired for n in pair])


@public
def tril(x: Any, k: int = 0) -> Expr:
    """Set the elements above the k-th diagonal of the last two axes to zero.

    As in NumPy, a vector is broadcast to a square matrix first.

    >>> ex.evaluate(ex.tril(np.ones((2, 2))))
    array([[1., 0.],
           [1., 1.]])
    """
    return _triangle(x, k, "tril", lower=True)


@public
def triu(x: Any, k: int = 0) -> Expr:
    """Set the elements below the k-th diagonal of the last two axes to zero.

    As in NumPy, a vector is broadcast to a square matrix first.

    >>> ex.evaluate(ex.triu(np.ones((2, 2))))
    array([[1., 1.],
           [0., 1.]])
    """
    return _triangle(x, k, "triu", lower=False)


def _triangle(x: Any, k: int, operation: str, lower: bool) -> Expr:
    (x,) = as_operands((x,))
    if x.ndim < 1:
        raise OperandError(
            f"{operation} of {x.type}", rule="the operand must have at least one axis", fix="x.reshape(1, 1)"
        )
    offset = as_integer(k, f"{operation}: the diagonal")
    rows, columns = x.shape[-2:] if x.ndim > 1 else x.shape * 2
    # beyond these limits the triangle is empty or full, and k could overflow the platform integers of NumPy's tri
    offset = min(max(offset, -rows), columns + 1)
    claim_constant(f"{operation} of {x.type}", rows * columns, 1)
    inside = np.tri(rows, columns, offset, bool) if lower else ~np.tri(rows, columns, offset - 1, bool)
    # select instead of multiplying by 0, because 0 times NaN or ∞ would be NaN
    return where(inside, x, False if x.dtype.kind == "b" else 0)


@public
def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Expr:
    """Move axes of ``x`` to other positions; the remaining axes keep their order.

    >>> ex.moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    (x,) = as_operands((x,))
    sources, destinations = (
        [
            normalize_axis(axis, x.ndim, "moveaxis")
            for axis in (positions if isinstance(positions, (tuple, list)) else (positions,))
        ]
        for positions in (source, destination)
    )
    if (
        len(set(sources)) != len(sources)
        or len(set(destinations)) != len(destinations)
        or len(sources) != len(destinations)
    ):
        raise OperandError(
            f"moveaxis: from {source!r} to {destination!r}",
            rule="each moved axis must be named once, with one destination",
            fix="ex.moveaxis(x, (0, 1), (1, 0))",
        )
    rest = iter([axis for axis in range(x.ndim) if axis not in sources])
    source_of = dict(zip(destinations, sources, strict=True))
    return transpose(
        x, tuple([source_of[position] if position in source_of else next(rest) for position in range(x.ndim)])
    )


@public
def pixel_shuffle(x: Any, factor: int) -> Expr:
    """Rearrange channels into squares of pixels: (N, C·r², H, W) → (N, C, H·r, W·r), where r is ``factor``.

    The elements of channel c · r² + i · r + j become the pixels (i, j) of the squares in channel c. (ONNX: DepthToSpace
    in mode CRD; PNNX: nn.PixelShuffle.)

    >>> ex.evaluate(ex.pixel_shuffle(ex.tensor(np.arange(4.0).reshape(1, 4, 1, 1)), 2))
    array([[[[0., 1.],
             [2., 3.]]]])
    """
    (x,) = as_operands((x,))
    r = _factor(x, factor, "pixel_shuffle")
    n, c, h, w = x.shape
    if c % (r * r):
        raise OperandError(
            f"pixel_shuffle: {c} channels by {r}",
            rule=f"the number of channels must be divisible by {r * r}",
            fix=f"{c // (r * r) * r * r + r * r} channels, or a smaller factor",
        )
    squares = transpose(reshape(x, (n, c // (r * r), r, r, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(squares, (n, c // (r * r), h * r, w * r))


@public
def pixel_unshuffle(x: Any, factor: int) -> Expr:
    """Rearrange pixels into channels: (N, C, H·r, W·r) → (N, C·r², H, W), the inverse of ``pixel_shuffle``.

    >>> ex.pixel_unshuffle(np.zeros((1, 1, 4, 6)), 2).shape
    (1, 4, 2, 3)
    """
    (x,) = as_operands((x,))
    r = _factor(x, factor, "pixel_unshuffle")
    n, c, h, w = x.shape
    if h % r or w % r:
        raise OperandError(
            f"pixel_unshuffle: images {h}×{w} by {r}",
            rule=f"rows and columns must be divisible by {r}",
            fix=f"use ex.pad to make them {-(-h // r) * r}×{-(-w // r) * r}",
        )
    squares = transpose(reshape(x, (n, c, h // r, r, w // r, r)), (0, 1, 3, 5, 2, 4))
    return reshape(squares, (n, c * r * r, h // r, w // r))


@public
def channel_shuffle(x: Any, groups: int) -> Expr:
    """Interleave the channels of ``x`` (N, C, …).

    The first channel of every group comes first, then the second channel of every group, and so on.

    >>> ex.evaluate(ex.channel_shuffle(np.arange(4).reshape(1, 4, 1), 2)).ravel()
    array([0, 2, 1, 3])
    """
    (x,) = as_operands((x,))
    count = check_groups("channel_shuffle", x, groups)
    split = reshape(x, (x.shape[0], count, x.shape[1] // count, math.prod(x.shape[2:])))
    return reshape(transpose(split, (0, 2, 1, 3)), x.shape)


def _factor(x: Expr, factor: int, operation: str) -> int:
    check_axes(operation, "N, C, H, W", x=x)
    return check_integer(factor, "factor", "factor=2", 1)
