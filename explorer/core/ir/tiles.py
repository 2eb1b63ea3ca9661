"""Tiles of kernels: parts of a result that can be computed in any order, by several threads at once.

Fused kernels run elementwise operations tile by tile, while the tile is in the cache. Two kinds of operations support
tiles. An operation that can compute its result in parts (a product, a convolution, a pooling) defines ``tiles``, and
elementwise operations on the result then run on each tile. A reduction declares the axes that it combines; the
elementwise operations that compute its operands then run block by block, and each block is combined immediately.

Tiles depend only on the shape of the result, and not on the number of threads, so every machine computes the same bits.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, Shape

T = TypeVar("T")
Index: TypeAlias = tuple[slice, ...]

TILE_BYTES = 1 << 18
"""number of bytes of temporaries per tile, which fit into a core's cache"""
KEPT_BYTES = 1 << 23
"""maximum number of bytes of scratch memory that a thread keeps; larger blocks are freed"""
_ALIGNMENT = 64


class Tile(NamedTuple):
    """Part of a result; ``compute`` writes the elements at the index ``region``."""

    region: Index
    compute: Callable[[], None]


class _ThreadMemory(threading.local):
    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.views: dict[Any, Any] = {}


_thread_memory = _ThreadMemory()
_MAX_VIEWS = 512
"""maximum number of cached views of scratch memory, per thread"""


def scratch(key: Hashable, arrays: Sequence[tuple[Shape, Any]], build: Callable[..., T]) -> T:
    """Return ``build(*arrays)`` for uninitialised arrays in the thread's scratch memory.

    ``arrays`` lists their shapes and dtypes. They are valid until the thread's next call. The result is cached under
    ``key``, which must contain everything on which the result depends.
    """
    cached = _thread_memory.views.get(key)
    if cached is not None:
        return cast("T", cached)
    offsets, end = [], 0
    for shape, dtype in arrays:
        offsets.append(end)
        end += -(-math.prod(shape) * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT
    if _thread_memory.memory.size >= end:
        memory = _thread_memory.memory
    elif end > KEPT_BYTES:
        memory = cpu.new(end)
    else:
        _thread_memory.views.clear()
        _thread_memory.memory = np.empty(0, np.uint8)  # freed first, because both may not fit at once
        memory = _thread_memory.memory = cpu.new(end)
    views = build(
        *[np.ndarray(shape, dtype, memory, offset) for (shape, dtype), offset in zip(arrays, offsets, strict=True)]
    )
    if memory is _thread_memory.memory:
        if len(_thread_memory.views) >= _MAX_VIEWS:
            _thread_memory.views.clear()
        _thread_memory.views[key] = views
    return views


def scratch_memory() -> Array:
    """Return the array from which ``scratch`` currently takes this thread's arrays."""
    return _thread_memory.memory


MAX_TILES = 2**20
"""maximum number of tiles along one axis"""


def count(length: int, limit: int) -> int:
    """Return the number of slices that ``even`` cuts.

    It is a power of two if the length allows this, so that 2ᵏ threads finish at the same time. It is at most
    ``MAX_TILES``, because a file's graph is drawn even if its sizes exceed any memory.
    """
    required = min(max(1, -(-length // max(1, limit))), MAX_TILES)
    return min(max(1, length), 1 << (required - 1).bit_length())


def longest(length: int, parts: int) -> int:
    """Return the length of the longest slice that ``slices`` cuts."""
    return -(-length // parts)


def even(length: int, limit: int) -> list[slice]:
    """Cut ``length`` into ``count(length, limit)`` slices of nearly equal size, at most ``limit`` (at least 1) each."""
    return slices(length, count(length, limit))


def slices(length: int, parts: int) -> list[slice]:
    """Cut ``length`` into ``parts`` slices of nearly equal size."""
    bounds = [length * index // parts for index in range(parts + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


def cut(array: Array, index: Index, rank: int) -> Array:
    """Return the part of an operand that broadcasts to the elements ``index`` of a result with ``rank`` dimensions."""
    if not array.ndim:
        return array
    # Axes are matched from the last one on, and an axis of size 1 is read completely for every tile.
    aligned = index[rank - array.ndim :]
    return array[tuple([slice(None) if size == 1 else part for size, part in zip(array.shape, aligned, strict=True)])]


def compute(tiles: Sequence[Tile]) -> None:
    """Compute all tiles in sequence on this thread."""
    for tile in tiles:
        tile.compute()
