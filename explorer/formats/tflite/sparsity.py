"""Sparse constants: the elements that are not zero, and where they stand, level by level.

A level is an axis of the tensor, or of its blocks, in the order in which elements are stored (TACO's formats): a dense
one has all its elements, of a sparse one each parent lists those that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import OperandError

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """A level: its length if it is dense, else for each parent where its children begin, and their coordinates."""

    length: int
    starts: Numbers | None = None
    coordinates: Numbers | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Sparsity:
    """The levels of a sparse tensor; ``order`` has the axis of each, those of blocks behind those of the tensor.

    ``blocks`` has the axis that each axis of blocks divides.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]

    def dense(self, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the tensor with its zeros; raises OperandError for levels that are none of this shape."""
        axes = len(shape) + len(self.blocks)
        if not shape or sorted(self.order) != list(range(axes)) or len(self.levels) != axes:
            raise self._wrong(f"{len(self.levels)} levels in the order {self.order[:8]}", shape)
        if any(not 0 <= axis < len(shape) for axis in self.blocks) or len({*self.blocks}) < len(self.blocks):
            raise self._wrong(f"blocks of the axes {self.blocks[:8]}", shape)
        places: list[Numbers] = []
        """the coordinates of all elements so far, one array a level"""
        positions = np.zeros(1, np.int64)
        # every place is one of an element, or a parent of a level that lists its children
        most = max([values.size, *[level.starts.size for level in self.levels if level.starts is not None]])
        for level in self.levels:
            parents, coordinates, positions = self._children(level, positions, shape, most)
            places = [*[place[parents] for place in places], coordinates]
        if positions.size != values.size:
            raise self._wrong(f"{values.size:,} elements for {positions.size:,} places", shape)
        by_axis = dict(zip(self.order, places, strict=True))
        sizes = {axis: level.length for axis, level in zip(self.order, self.levels, strict=True)}
        index = [by_axis[axis] for axis in range(len(shape))]
        for number, axis in enumerate(self.blocks, len(shape)):
            index[axis] = index[axis] * sizes[number] + by_axis[number]
        lengths = zip(index, shape, strict=True)
        if any(place.size and not 0 <= int(place.min()) <= int(place.max()) < length for place, length in lengths):
            raise self._wrong("places beyond the ends", shape)
        dense = np.zeros(shape, values.dtype)
        dense[tuple(index)] = values[positions]
        return dense

    def _children(
        self, level: Level, positions: Numbers, shape: Sequence[int], most: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return for each child of a level its parent's number, its coordinate, and its position among all."""
        if level.starts is None or level.coordinates is None:
            if level.length < 1 or positions.size * level.length > most:
                raise self._wrong(f"a dense level of {level.length:,}", shape)
            parents = np.repeat(np.arange(positions.size), level.length)
            coordinates = np.tile(np.arange(level.length), positions.size)
            return parents, coordinates, positions[parents] * level.length + coordinates
        if positions.size and int(positions.max()) + 1 >= level.starts.size:
            raise self._wrong(f"a sparse level of {level.starts.size} starts", shape)
        first, last = level.starts[positions], level.starts[positions + 1]
        counts = last - first
        if counts.size and (int(counts.min()) < 0 or int(first.min()) < 0 or int(last.max()) > level.coordinates.size):
            raise self._wrong("a sparse level whose children are not all there", shape)
        if int(counts.sum()) > most:
            raise self._wrong(f"a sparse level of {int(counts.sum()):,} elements", shape)
        parents = np.repeat(np.arange(positions.size), counts)
        # each child's position: where its parent's children begin, and its number among them
        ends = np.cumsum(counts)
        own = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts) + np.repeat(first, counts)
        return parents, level.coordinates[own], own

    def _wrong(self, problem: str, shape: Sequence[int]) -> OperandError:
        return OperandError(
            f"a sparse tensor of shape {tuple(shape)} has {problem}",
            rule="the levels of a sparse tensor must be its axes and its blocks', with all elements inside it",
            fix="convert the model again",
        )
