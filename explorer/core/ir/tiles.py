"""Tiles of kernels: parts of a result that can be computed in any order and on several threads at once.

Fused kernels run elementwise operations tile by tile, while a tile is in the cache, and several threads share the
tiles. Two kinds of operations support this. A kernel that can compute its result in parts (a product, a convolution, a
pooling) defines ``tiles``; elementwise operations on the result then run on each tile. A reduction declares the axes
that it combines; elementwise producers of its operands then run block by block, and each block is combined at once.

A result is cut by its shape only, not by the number of threads, so that every machine computes the same bits.
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
"""bytes of temporaries per tile: they fit a core's own cache"""
KEPT_BYTES = 1 << 23
"""bytes of scratch memory that a thread keeps for its next tile; a larger block is freed"""
_ALIGNMENT = 64


class Tile(NamedTuple):
    """Part of a result: ``compute`` writes the elements ``place`` of the result."""

    place: Index
    compute: Callable[[], None]


class _Own(threading.local):
    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.views: dict[Any, Any] = {}


_own = _Own()
_MOST_VIEWS = 512
"""number of views of scratch memory that a thread keeps"""


def scratch(key: Hashable, wanted: Sequence[tuple[Shape, Any]], build: Callable[..., T]) -> T:
    """Return ``build(*arrays)`` of uninitialised arrays of given shapes and dtypes, in the thread's own memory.

    Valid until the thread's next call. It is built once for a ``key``, which must name everything that it depends on.
    """
    cached = _own.views.get(key)
    if cached is not None:
        return cast("T", cached)
    places, end = [], 0
    for shape, dtype in wanted:
        places.append(end)
        end += -(-math.prod(shape) * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT
    if _own.memory.size >= end:
        memory = _own.memory
    elif end > KEPT_BYTES:
        memory = cpu.new(end)
    else:
        _own.views.clear()
        _own.memory = np.empty(0, np.uint8)  # Freed first, because both may not fit at once.
        memory = _own.memory = cpu.new(end)
    views = build(
        *[np.ndarray(shape, dtype, memory, place) for (shape, dtype), place in zip(wanted, places, strict=True)]
    )
    if memory is _own.memory:
        if len(_own.views) >= _MOST_VIEWS:
            _own.views.clear()
        _own.views[key] = views
    return views


def scratch_memory() -> Array:
    """Return the thread's own memory, of which ``scratch`` gives parts; another array once it had to grow."""
    return _own.memory


MOST = 2**20
"""maximum number of tiles along one axis"""


def count(length: int, most: int) -> int:
    """Return the number of slices that ``even`` makes: 2ⁿ if the length allows, so that 2ᵏ threads finish together.

    At most ``MOST``: a file may declare lengths that no memory holds, and its graph is drawn all the same.
    """
    needed = min(max(1, -(-length // max(1, most))), MOST)
    return min(max(1, length), 1 << (needed - 1).bit_length())


def longest(length: int, parts: int) -> int:
    """Return the length of the longest of ``parts`` slices of nearly equal size."""
    return -(-length // parts)


def even(length: int, most: int) -> list[slice]:
    """Cut a length into ``count`` slices of nearly equal size, none longer than ``most`` (at least 1)."""
    return slices(length, count(length, most))


def slices(length: int, parts: int) -> list[slice]:
    """Cut a length into ``parts`` slices of nearly equal size."""
    bounds = [length * index // parts for index in range(parts + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


def cut(array: Array, index: Index, rank: int) -> Array:
    """Return the part of an operand that broadcasts to the elements ``index`` of a result of this rank."""
    if not array.ndim:
        return array
    # As in NumPy broadcasting, axes are matched from the last one, and an axis of size 1 is read whole for every tile.
    own = index[rank - array.ndim :]
    return array[tuple([slice(None) if size == 1 else part for size, part in zip(array.shape, own, strict=True)])]


def compute(tiles: Sequence[Tile]) -> None:
    """Compute all tiles, one after the other, on this thread."""
    for piece in tiles:
        piece.compute()
