"""Tiling: the blocks of a fused reduction's operand. They depend only on shapes.

A row consists of the elements that are reduced to one element of the result. If possible, rows are not divided, so each
row is summed exactly as in NumPy. If a contiguous row exceeds a block, it is halved at the same positions as in NumPy's
pairwise summation, so its sum has the same bits. Other rows are divided into parts, and the results of the parts are
combined.

The pass `Fuse` requests tilings, and run/kernels/fused_reduction.py executes them. Tilings do not depend on the number
of threads, so the last digits of a result are the same on every machine. Alternatives that were tried are described in
assets/decisions/0008-sums-are-split-where-numpy-splits-them.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from explorer.core.ir.tiles import Index, count, slices
from explorer.core.types.tensor_type import Shape

PIXEL_BY_PIXEL = (0, 2, 3, 1)
"""order of axes in memory for images (N, C, H, W) with contiguous channels"""
_UNROLLED = 8
"""NumPy's pairwise summation halves a contiguous run at multiples of this number of elements"""
_RUN, _LINE = 64, 8192
"""minimum number of contiguous elements in a block, if rows may be divided and if they may not; shorter runs waste
cache lines"""

MOST_BLOCKS = 1 << 16
"""maximum number of blocks of an array; a program may declare lengths that exceed any memory"""


class Tiling(NamedTuple):
    """Blocks of an array that is reduced along ``axes``.

    ``order`` lists all axes from outermost to innermost in memory.
    """

    shape: Shape
    axes: tuple[int, ...]
    order: tuple[int, ...]
    most: int
    """approximate maximum number of elements in a block"""
    counts: tuple[int, ...]
    """number of slices along each axis"""
    halvings: int = 0
    """how many times each contiguous row is halved; if rows are halved, the other axes are divided into single
    indices"""

    @property
    def run(self) -> tuple[int, ...]:
        """Axes that form one contiguous run in each row, outermost first; () if the innermost axis is not reduced."""
        innermost_first = itertools.dropwhile(lambda axis: self.shape[axis] == 1, reversed(self.order))
        axes_of_run = itertools.takewhile(lambda axis: axis in self.axes or self.shape[axis] == 1, innermost_first)
        return tuple(reversed([axis for axis in axes_of_run if self.shape[axis] != 1]))

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return math.prod(self.counts) << self.halvings

    @property
    def elements(self) -> int:
        """Number of elements in the largest block."""
        if not self.halvings:
            return math.prod([-(-size // parts) for size, parts in zip(self.shape, self.counts, strict=True)])
        length = math.prod([self.shape[axis] for axis in self.run])
        for _ in range(self.halvings):
            length -= half(length)
        return length

    @property
    def in_parts(self) -> bool:
        """Whether rows are divided."""
        return self.halvings > 0 or any(self.counts[axis] > 1 for axis in self.axes)

    @property
    def parts(self) -> Shape:
        """Shape of the partial results; along a reduced axis, its size is the number of parts."""
        counts = [self.counts[axis] if axis in self.axes else size for axis, size in enumerate(self.shape)]
        if self.halvings:
            counts[self.run[-1]] = 1 << self.halvings
        return tuple(counts)

    def laid(self, order: tuple[int, ...], in_parts: bool) -> Tiling:
        """Return the tiling for the array stored in another ``order``.

        ``in_parts`` permits dividing rows. If rows would have to be divided, but this is not permitted, the tiling is
        returned unchanged.
        """
        return tiling_of(self.shape, self.axes, self.most, in_parts, order) or self

    def indices(self) -> Iterator[tuple[Index, Index]]:
        """Yield for each block, in memory order, its index in the array and its index in the partial results.

        This is possible only if ``halvings`` is 0, so that blocks are divided along axes.
        """
        cuts_of_axis = [slices(self.shape[axis], self.counts[axis]) for axis in self.order]
        result_cuts = [
            [slice(part, part + 1) for part in range(len(cuts))] if axis in self.axes else cuts
            for axis, cuts in zip(self.order, cuts_of_axis, strict=True)
        ]
        # Invert the permutation `order`, because slices are listed in memory order, but indices are in the order of
        # axes.
        position_of_axis = sorted(range(len(self.order)), key=self.order.__getitem__)
        for block, result_block in zip(itertools.product(*cuts_of_axis), itertools.product(*result_cuts), strict=True):
            yield (
                tuple([block[axis] for axis in position_of_axis]),
                tuple([result_block[axis] for axis in position_of_axis]),
            )


def tiling_of(
    shape: Shape, axes: tuple[int, ...], most: int, in_parts: bool = True, order: tuple[int, ...] = ()
) -> Tiling | None:
    """Return blocks of about ``most`` elements of an array that is reduced along ``axes``.

    ``in_parts`` permits dividing rows. ``order`` lists all axes from outermost to innermost in memory; () means
    row-major order. Returns None if rows would have to be divided but this is not permitted, or if there would be too
    many blocks.

    Example: ``tiling_of((1024, 4096), (1,), 1 << 18).counts`` is ``(16, 1)``: 16 blocks of 64 whole rows.
    """
    order = order or tuple(range(len(shape)))
    if math.prod(shape) <= most:
        return Tiling(shape, axes, order, most, (1,) * len(shape))
    tiling = _cut(shape, axes, max(most, 2 * _UNROLLED), in_parts, order)  # shorter runs are not halved
    return None if tiling is None or tiling.blocks > MOST_BLOCKS else tiling


def _cut(shape: Shape, axes: tuple[int, ...], most: int, in_parts: bool, order: tuple[int, ...]) -> Tiling | None:
    """Return the tiling of an array of more than ``most`` elements.

    If contiguous runs are long, they are halved. Otherwise the axes that are not reduced are divided first, then the
    other axes.
    """
    counts = [1] * len(shape)
    size = math.prod(shape)
    run = Tiling(shape, axes, order, most, tuple(counts)).run
    length = math.prod([shape[axis] for axis in run])
    if length > most:
        halvings = 0
        while length > most:
            # Continue with the larger half. NumPy rounds the first half down, so the second half is at least as long.
            length -= half(length)
            halvings += 1
        counts = [1 if axis in run else size for axis, size in enumerate(shape)]
        return Tiling(shape, axes, order, most, tuple(counts), halvings) if in_parts else None
    extents = list(shape)

    def cut(axis: int, min_elements: int, indices: int) -> None:
        """Divide an axis into slices with at least ``min_elements`` elements and at least ``indices`` indices."""
        nonlocal size
        other_elements = size // extents[axis]
        counts[axis] = min(
            count(shape[axis], max(min_elements, most // other_elements)), max(1, shape[axis] // indices)
        )
        extents[axis] = -(-shape[axis] // counts[axis])
        size = other_elements * extents[axis]

    # Do not divide rows if possible: first divide the axes that are not reduced, starting with the outermost.
    min_elements = most // (_RUN if in_parts else _LINE)
    inner, is_outermost = math.prod(shape), True
    for axis in order:
        inner //= shape[axis]
        is_outermost = is_outermost and axis not in axes
        if axis not in axes and size > most:
            if is_outermost:
                cut(axis, 1, 1)
            else:  # If there were only one index between reduced axes, these would become one contiguous run.
                cut(axis, -(-min_elements // inner), 2)
    # If blocks are still too large, divide rows along reduced axes, but not within contiguous runs.
    if size > most and not in_parts:
        return None
    for axis in order:
        if axis in axes and axis not in run and size > most:
            cut(axis, 1, 1)
    return Tiling(shape, axes, order, most, tuple(counts))


def half(length: int) -> int:
    """Return the position at which NumPy's pairwise summation halves a run of ``length`` elements."""
    return length // 2 - length // 2 % _UNROLLED


def halved(length: int, halvings: int) -> list[tuple[int, int]]:
    """Return the runs (start, stop) that result from halving a run of ``length`` elements ``halvings`` times."""
    runs = [(0, length)]
    for _ in range(halvings):
        runs = [
            part
            for start, stop in runs
            for part in ((start, start + half(stop - start)), (start + half(stop - start), stop))
        ]
    return runs


def boxes(shape: Sequence[int], start: int, stop: int) -> list[Index]:
    """Return boxes of indices that contain the elements ``start`` … ``stop`` − 1 in row-major order.

    Whole rows are one box. The remainders of the first and the last row are separate boxes, and are divided
    recursively.
    """
    if not shape:
        return [()]
    inner = math.prod(shape[1:])
    # Whole rows: the first one that begins at or after `start`, up to the last one that ends at or before `stop`.
    first, last = -(-start // inner), stop // inner
    if first > last:  # the range is within one row
        return [(slice(last, last + 1), *box) for box in boxes(shape[1:], start - last * inner, stop - last * inner)]
    parts: list[Index] = []
    if start < first * inner:
        before = first - 1
        parts += [(slice(before, first), *box) for box in boxes(shape[1:], start - before * inner, inner)]
    if first < last:
        parts.append((slice(first, last), *[slice(0, size) for size in shape[1:]]))
    if last * inner < stop:
        parts += [(slice(last, last + 1), *box) for box in boxes(shape[1:], 0, stop - last * inner)]
    return parts
