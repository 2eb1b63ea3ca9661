"""Parts of a TensorFlow Lite file, as plain values: what the flatbuffer states, without its weights.

``message`` makes them, and checks that every byte range is inside the file; the reader makes a definition of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import OperandError
from explorer.net.definition.definition import Plain

UNKNOWN_LENGTH = -1
"""a length that the file leaves open"""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of the file: ``size`` of them from ``first``."""

    first: int
    size: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """The map from stored integers to real numbers, ``scale · (q − zero_point)``, for each channel of an axis.

    ``scale`` and ``zero_point`` are the byte ranges of float32 and int64 numbers in the file; ``scales`` and
    ``zero_points`` are their values where there are few.
    """

    scale: ByteRange
    zero_point: ByteRange
    axis: int
    count: int
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of a graph: its types, and the byte range of its elements if it is a constant.

    ``shape`` has ``UNKNOWN_LENGTH`` for each length that is open; None if the number of axes is open, too.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    data: ByteRange | None
    quantization: Quantization | None
    is_variable: bool
    sparsity: Sparsity | None


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator: its type, its tensors by their numbers (−1 for one that is left out), and its options."""

    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Plain]
    graphs: Mapping[str, int] = field(default_factory=dict)
    """numbers of the inner graphs by their names: those of branches and bodies"""


@dataclass(frozen=True, slots=True)
class FileGraph:
    """A graph of the file."""

    name: str
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FileOperator, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """A function that the file offers: its key, its graph's number, and tensors by the names that callers use."""

    key: str
    graph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FileModel:
    """Everything that a file states: the first graph is the net, others are bodies or other signatures' graphs."""

    version: int
    description: str
    graphs: tuple[FileGraph, ...]
    signatures: tuple[Signature, ...]


Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """A level: its length if it is dense, else for each parent where its children begin, and their coordinates."""

    length: int
    starts: Numbers | None = None
    coordinates: Numbers | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Sparsity:
    """The levels of a sparse tensor; ``order`` has the axis of each, those of blocks after those of the tensor.

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
        index_arrays: list[Numbers] = []
        """the coordinates of all elements so far, one array a level"""
        positions = np.zeros(1, np.int64)
        # every position belongs to an element, or to a parent of a level that lists its children
        most = max([values.size, *[level.starts.size for level in self.levels if level.starts is not None]])
        for level in self.levels:
            parents, coordinates, positions = self._children(level, positions, shape, most)
            index_arrays = [*[array[parents] for array in index_arrays], coordinates]
        if positions.size != values.size:
            raise self._wrong(f"{values.size:,} elements for {positions.size:,} positions", shape)
        by_axis = dict(zip(self.order, index_arrays, strict=True))
        sizes = {axis: level.length for axis, level in zip(self.order, self.levels, strict=True)}
        index = [by_axis[axis] for axis in range(len(shape))]
        for number, axis in enumerate(self.blocks, len(shape)):
            index[axis] = index[axis] * sizes[number] + by_axis[number]
        lengths = zip(index, shape, strict=True)
        if any(array.size and not 0 <= int(array.min()) <= int(array.max()) < length for array, length in lengths):
            raise self._wrong("positions beyond the ends", shape)
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
