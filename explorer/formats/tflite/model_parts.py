"""Contents of a TensorFlow Lite file as plain values, without the weights.

``message`` reads these values from the flatbuffer and checks that all byte ranges are inside the file. ``reader``
converts them to a definition.
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
"""length of an axis whose length the file does not declare"""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Range of ``size`` bytes in the file, starting at offset ``first``."""

    first: int
    size: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """Mapping from stored integers to real numbers: ``scale · (q − zero_point)``.

    A tensor has one scale and zero point, or one for each channel along ``axis``. ``scale`` and ``zero_point`` are the
    byte ranges of the float32 scales and the int64 zero points in the file. If there are few scales, ``scales`` and
    ``zero_points`` contain the values.
    """

    scale: ByteRange
    zero_point: ByteRange
    axis: int
    count: int
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileTensor:
    """Tensor of a graph. A constant also has the byte range of its elements.

    ``shape`` contains ``UNKNOWN_LENGTH`` for each unknown length. It is None if the rank is unknown.
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
    """Operator with its type, the indices of its tensors (−1 for an omitted tensor), and its options."""

    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Plain]
    graphs: Mapping[str, int] = field(default_factory=dict)
    """indices of the inner graphs (branches or bodies), by name"""
    version: int = 1
    """version of the type"""


@dataclass(frozen=True, slots=True)
class FileGraph:
    """Graph of the file. Its inputs and outputs are given by tensor indices."""

    name: str
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FileOperator, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """Callable function of the file: its key, the index of its graph, and the tensor index of each input and output."""

    key: str
    graph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FileModel:
    """All contents of a file. The first graph is the net; other graphs are bodies or belong to other signatures."""

    version: int
    description: str
    graphs: tuple[FileGraph, ...]
    signatures: tuple[Signature, ...]
    metadata: tuple[tuple[str, str], ...] = ()


Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """One level of a sparse tensor, dense or sparse.

    A dense level has a ``length``. A sparse level has ``starts``, the index of each parent's first child, and
    ``coordinates``, the coordinate of each child.
    """

    length: int
    starts: Numbers | None = None
    coordinates: Numbers | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Sparsity:
    """Levels of a sparse tensor. ``order`` contains the axis of each level.

    An axis may be divided into blocks, which adds a block axis after the tensor's axes. ``blocks`` contains the tensor
    axis that each block axis divides.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]

    def dense(self, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the dense tensor with the stored elements ``values``; raise OperandError if the levels do not fit."""
        axes = len(shape) + len(self.blocks)
        if not shape or sorted(self.order) != list(range(axes)) or len(self.levels) != axes:
            raise self._error(f"{len(self.levels)} levels in the order {self.order[:8]}", shape)
        if any(not 0 <= axis < len(shape) for axis in self.blocks) or len({*self.blocks}) < len(self.blocks):
            raise self._error(f"blocks of the axes {self.blocks[:8]}", shape)
        index_arrays: list[Numbers] = []
        """coordinates of all elements found so far, one array for each level"""
        positions = np.zeros(1, np.int64)
        # A valid level has at most this many positions: one per stored element, or one per parent in a sparse level.
        limit = max([values.size, *[level.starts.size for level in self.levels if level.starts is not None]])
        for level in self.levels:
            parents, coordinates, positions = self._children(level, positions, shape, limit)
            index_arrays = [*[array[parents] for array in index_arrays], coordinates]
        if positions.size != values.size:
            raise self._error(f"{values.size:,} elements for {positions.size:,} positions", shape)
        by_axis = dict(zip(self.order, index_arrays, strict=True))
        sizes = {axis: level.length for axis, level in zip(self.order, self.levels, strict=True)}
        index = [by_axis[axis] for axis in range(len(shape))]
        for number, axis in enumerate(self.blocks, len(shape)):
            index[axis] = index[axis] * sizes[number] + by_axis[number]
        lengths = zip(index, shape, strict=True)
        if any(array.size and not 0 <= int(array.min()) <= int(array.max()) < length for array, length in lengths):
            raise self._error("positions outside the shape", shape)
        dense = np.zeros(shape, values.dtype)
        dense[tuple(index)] = values[positions]
        return dense

    def _children(
        self, level: Level, positions: Numbers, shape: Sequence[int], limit: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return, for each child in a level, its parent's index in ``positions``, its coordinate and its position."""
        if level.starts is None or level.coordinates is None:
            if level.length < 1 or positions.size * level.length > limit:
                raise self._error(f"a dense level of length {level.length:,}", shape)
            parents = np.repeat(np.arange(positions.size), level.length)
            coordinates = np.tile(np.arange(level.length), positions.size)
            return parents, coordinates, positions[parents] * level.length + coordinates
        if positions.size and int(positions.max()) + 1 >= level.starts.size:
            raise self._error(f"a sparse level with {level.starts.size} starts", shape)
        first, last = level.starts[positions], level.starts[positions + 1]
        counts = last - first
        if counts.size and (int(counts.min()) < 0 or int(first.min()) < 0 or int(last.max()) > level.coordinates.size):
            raise self._error("a sparse level without some of its children", shape)
        if int(counts.sum()) > limit:
            raise self._error(f"a sparse level with {int(counts.sum()):,} elements", shape)
        parents = np.repeat(np.arange(positions.size), counts)
        # A child's position is the position of its parent's first child plus the child's index among its siblings.
        ends = np.cumsum(counts)
        own = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts) + np.repeat(first, counts)
        return parents, level.coordinates[own], own

    def _error(self, problem: str, shape: Sequence[int]) -> OperandError:
        return OperandError(
            f"a sparse tensor of shape {tuple(shape)} has {problem}",
            rule="a sparse tensor must have one level for each axis and block axis, and all elements inside its shape",
            fix="convert the model again",
        )
