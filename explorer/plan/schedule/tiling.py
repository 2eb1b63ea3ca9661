"""Tiling: the blocks in which a reduction reads what is made for it, decided by shapes alone.

Rows, which are the elements that one element of the result is made of, stay whole as long as they can: each is then
summed as NumPy sums it alone. A row that is one run of memory and too long for a block is halved where NumPy's pairwise
summation halves it, so that its sum keeps its bits too. Others are cut into parts, whose results are joined.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from explorer.core.ir.tiles import Index, count, slices
from explorer.core.types.tensor_type import Shape

PIXEL_BY_PIXEL = (0, 2, 3, 1)
"""the order in memory of images (N, C, H, W) whose channels lie together"""
_UNROLLED = 8
"""NumPy's pairwise summation halves a run at a multiple of this many elements"""
_RUN, _LINE = 64, 8192
"""of a block the part that lies side by side in memory at least: where rows may be cut, and where they may not"""

_BLOCKS = 1 << 16
"""as many blocks as are cut at most: lengths may be declared that no memory holds"""


class Tiling(NamedTuple):
    """Blocks of an array whose elements are combined along ``axes``; ``order`` are all its axes, outermost first."""

    shape: Shape
    axes: tuple[int, ...]
    order: tuple[int, ...]
    most: int
    """elements that a block may have, about"""
    counts: tuple[int, ...]
    """into how many slices each axis is cut"""
    halvings: int = 0
    """how often each row, one run of memory, is halved; the axes outside of the runs are cut into single indices"""

    @property
    def run(self) -> tuple[int, ...]:
        """The axes that are one run of memory in each row, outermost first; () where none is combined."""
        laid = itertools.dropwhile(lambda axis: self.shape[axis] == 1, reversed(self.order))
        found = itertools.takewhile(lambda axis: axis in self.axes or self.shape[axis] == 1, laid)
        return tuple(reversed([axis for axis in found if self.shape[axis] != 1]))

    @property
    def blocks(self) -> int:
        """How many there are."""
        return math.prod(self.counts) << self.halvings

    @property
    def elements(self) -> int:
        """Elements of the largest block."""
        if not self.halvings:
            return math.prod([-(-size // parts) for size, parts in zip(self.shape, self.counts, strict=True)])
        length = math.prod([self.shape[axis] for axis in self.run])
        for _ in range(self.halvings):
            length -= half(length)
        return length

    @property
    def in_parts(self) -> bool:
        """Whether rows are cut."""
        return self.halvings > 0 or any(self.counts[axis] > 1 for axis in self.axes)

    @property
    def parts(self) -> Shape:
        """The shape of the values of all parts of rows: along the axes that are combined, one for each part."""
        found = [self.counts[axis] if axis in self.axes else size for axis, size in enumerate(self.shape)]
        if self.halvings:
            found[self.run[-1]] = 1 << self.halvings
        return tuple(found)

    def laid(self, order: tuple[int, ...], in_parts: bool) -> Tiling:
        """The blocks of the array where it lies by another ``order``; these where rows would be cut and may not be."""
        return tiling_of(self.shape, self.axes, self.most, in_parts, order) or self

    def indices(self) -> Iterator[tuple[Index, Index]]:
        """For each block that is cut along axes: its elements, and the place of their values among those of all parts.

        They come in their order in memory.
        """
        own = [slices(self.shape[axis], self.counts[axis]) for axis in self.order]
        places = [
            [slice(part, part + 1) for part in range(len(cuts))] if axis in self.axes else cuts
            for axis, cuts in zip(self.order, own, strict=True)
        ]
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        for block, place in zip(itertools.product(*own), itertools.product(*places), strict=True):
            yield tuple([block[axis] for axis in back]), tuple([place[axis] for axis in back])


def tiling_of(
    shape: Shape, axes: tuple[int, ...], most: int, in_parts: bool = True, order: tuple[int, ...] = ()
) -> Tiling | None:
    """Blocks of about ``most`` elements; None where rows would have to be cut and, not ``in_parts``, may not be.

    None too where there would be more of them than any memory has arrays for.
    """
    order = order or tuple(range(len(shape)))
    if math.prod(shape) <= most:
        return Tiling(shape, axes, order, most, (1,) * len(shape))
    found = _cut(shape, axes, max(most, 2 * _UNROLLED), in_parts, order)  # fewer are not halved
    return None if found is None or found.blocks > _BLOCKS else found


def _cut(shape: Shape, axes: tuple[int, ...], most: int, in_parts: bool, order: tuple[int, ...]) -> Tiling | None:
    counts = [1] * len(shape)
    size = math.prod(shape)
    run = Tiling(shape, axes, order, most, tuple(counts)).run
    length = math.prod([shape[axis] for axis in run])
    if length > most:
        halvings = 0
        while length > most:
            length -= half(length)
            halvings += 1
        counts = [1 if axis in run else size for axis, size in enumerate(shape)]
        return Tiling(shape, axes, order, most, tuple(counts), halvings) if in_parts else None
    extents = list(shape)

    def cut(axis: int, least: int, indices: int) -> None:
        nonlocal size
        beside = size // extents[axis]
        counts[axis] = min(count(shape[axis], max(least, most // beside)), max(1, shape[axis] // indices))
        extents[axis] = -(-shape[axis] // counts[axis])
        size = beside * extents[axis]

    least = most // (_RUN if in_parts else _LINE)
    inner, outside = math.prod(shape), True
    for axis in order:
        inner //= shape[axis]
        outside = outside and axis not in axes
        if axis not in axes and size > most:
            if outside:
                cut(axis, 1, 1)
            else:  # a single index between axes that are combined would make one run of them
                cut(axis, -(-least // inner), 2)
    if size > most and not in_parts:
        return None
    for axis in order:
        if axis in axes and axis not in run and size > most:
            cut(axis, 1, 1)
    return Tiling(shape, axes, order, most, tuple(counts))


def half(length: int) -> int:
    """Where NumPy's pairwise summation halves a run of so many elements."""
    return length // 2 - length // 2 % _UNROLLED


def halved(length: int, halvings: int) -> list[tuple[int, int]]:
    """The runs, by start and stop, that a run of so many elements becomes when all are halved so often."""
    found = [(0, length)]
    for _ in range(halvings):
        found = [
            part
            for start, stop in found
            for part in ((start, start + half(stop - start)), (start + half(stop - start), stop))
        ]
    return found


def boxes(shape: Sequence[int], start: int, stop: int) -> list[Index]:
    """The elements from ``start`` to ``stop`` of an array, row by row, as parts of it: whole rows are together."""
    if not shape:
        return [()]
    inner = math.prod(shape[1:])
    first, last = -(-start // inner), stop // inner
    if first > last:  # within one row
        return [(slice(last, last + 1), *box) for box in boxes(shape[1:], start - last * inner, stop - last * inner)]
    found: list[Index] = []
    if start < first * inner:
        before = first - 1
        found += [(slice(before, first), *box) for box in boxes(shape[1:], start - before * inner, inner)]
    if first < last:
        found.append((slice(first, last), *[slice(0, size) for size in shape[1:]]))
    if last * inner < stop:
        found += [(slice(last, last + 1), *box) for box in boxes(shape[1:], 0, stop - last * inner)]
    return found
