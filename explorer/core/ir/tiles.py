"""Kernels in pieces: parts of a result that can be made in any order, and at the same time on several threads.

How a result is cut is decided by shapes alone, never by the number of threads: the same bits on every machine.
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
"""temporaries of one piece: they stay in a core's own cache"""
KEPT_BYTES = 1 << 23
"""scratch memory that a thread keeps for its next piece; what is larger is given back"""
_ALIGNMENT = 64


class Tile(NamedTuple):
    """A part of a result: ``compute`` writes it, into the elements ``place`` of the result."""

    place: Index
    compute: Callable[[], None]


class _Own(threading.local):
    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.made: dict[Any, Any] = {}


_own = _Own()
_MADE = 512
"""views of scratch memory that a thread keeps"""


def scratch(key: Hashable, wanted: Sequence[tuple[Shape, Any]], build: Callable[..., T]) -> T:
    """What ``build`` makes of uninitialised arrays of shapes and dtypes, in the thread's own memory.

    Valid until the thread's next call. It is made once for a ``key``, which tells all that it depends on.
    """
    found = _own.made.get(key)
    if found is not None:
        return cast("T", found)
    places, end = [], 0
    for shape, dtype in wanted:
        places.append(end)
        end += -(-math.prod(shape) * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT
    if _own.memory.size >= end:
        memory = _own.memory
    elif end > KEPT_BYTES:
        memory = cpu.new(end)
    else:
        _own.made.clear()
        _own.memory = np.empty(0, np.uint8)  # the smaller one goes before the larger comes
        memory = _own.memory = cpu.new(end)
    made = build(
        *[np.ndarray(shape, dtype, memory, place) for (shape, dtype), place in zip(wanted, places, strict=True)]
    )
    if memory is _own.memory:
        if len(_own.made) >= _MADE:
            _own.made.clear()
        _own.made[key] = made
    return made


MOST = 2**20
"""pieces that one length is cut into"""


def count(length: int, most: int) -> int:
    """How many slices ``even`` gives: 2ⁿ where the length allows, so that 2ᵏ threads finish together.

    Never more than ``MOST``, for a file may declare lengths that no memory holds, and is drawn all the same.
    """
    found = min(max(1, -(-length // max(1, most))), MOST)
    return min(max(1, length), 1 << (found - 1).bit_length())


def longest(length: int, parts: int) -> int:
    """The length of the longest of so many slices of nearly equal size."""
    return -(-length // parts)


def even(length: int, most: int) -> list[slice]:
    """A length cut into ``count`` slices of nearly equal size, none longer than ``most`` (at least 1)."""
    return slices(length, count(length, most))


def slices(length: int, parts: int) -> list[slice]:
    """A length cut into so many slices of nearly equal size."""
    bounds = [length * index // parts for index in range(parts + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


def cut(array: Array, index: Index, rank: int) -> Array:
    """The part of an operand that broadcasts to the elements ``index`` of a result of this rank."""
    if not array.ndim:
        return array
    own = index[rank - array.ndim :]
    return array[tuple([slice(None) if size == 1 else part for size, part in zip(array.shape, own, strict=True)])]


def compute(tiles: Sequence[Tile]) -> None:
    """Make all pieces, one after the other, on this thread."""
    for piece in tiles:
        piece.compute()
