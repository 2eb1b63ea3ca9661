"""Extremes of rows of floats, in half to a quarter of the time of a plain ``maximum.reduce``.

NumPy takes the last elements of a row, those that fill no vector of its processor, one by one, and a reduction without
an initial value always leaves such a rest, since the row's first element is its beginning. 1,024 rows of 8 float32
numbers take 45 µs; where argmax finds their positions, and the elements are taken there, 10. 4,096 rows of 128 take
370 µs; with −∞ as the initial value 135, by argmax 160 (NumPy 2.4, AVX-512). NaN wins in all of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.types.tensor_type import Array

_FINDERS: dict[np.ufunc, tuple[str, float]] = {
    np.maximum: ("argmax", -np.inf),
    np.minimum: ("argmin", np.inf),
}
"""for each ufunc the method that finds an extreme's position, and a number that changes no extreme"""

_BLOCK = 4096
"""rows whose positions are in memory at a time"""

_LANES = 16
"""float32 numbers in a vector of the processor"""


def row_extremes(
    ufunc: np.ufunc, x: Array, axes: tuple[int, ...], out: Array, initial: float | None = None
) -> Callable[[], Array] | None:
    """Return a call that writes the extremes along ``axes`` of an array, which stays where it is, into ``out``.

    None where ``ufunc.reduce`` serves as well: for a single row, rows that are not adjacent in memory, rows of one
    element or of none, and dtypes other than float32 and float64.
    """
    if ufunc not in _FINDERS or not isinstance(x, np.ndarray) or x.dtype.char not in "fd" or x.dtype != out.dtype:
        return None
    kept = x.ndim - len(axes)
    if axes != tuple(range(kept, x.ndim)) or not (x.flags.c_contiguous and out.flags.c_contiguous):
        return None
    count = math.prod(x.shape[:kept])
    if count < 2 or x.size < 2 * count:
        return None
    rows, extremes = x.reshape(count, -1), out.reshape(-1)
    method, neutral = _FINDERS[ufunc]
    length = rows.shape[1]
    if x.dtype.char == "f" and length >= 2 * _LANES and length % _LANES <= _LANES // 4:
        reduce: Callable[..., Any] = ufunc.reduce
        start = neutral if initial is None else initial
        return functools.partial(_run, [functools.partial(reduce, rows, 1, None, extremes, False, start)], out)
    if not x.flags.writeable:  # NumPy copies an array that is read-only before it looks for positions
        return None
    positions = np.empty(min(count, _BLOCK), np.intp)
    starts = np.arange(len(positions)) * length
    calls: list[Callable[[], Any]] = []
    for first in range(0, count, _BLOCK):
        block, part = rows[first : first + _BLOCK], extremes[first : first + _BLOCK]
        find, take, size = getattr(block, method), block.reshape(-1).take, len(block)
        calls.append(functools.partial(_take_extremes, find, positions[:size], starts[:size], take, part))
    if initial is not None:
        calls.append(functools.partial(ufunc, extremes, np.array(initial, out.dtype), out=extremes))
    return functools.partial(_run, calls, out)


def _take_extremes(
    find: Callable[..., Any], positions: Array, starts: Array, take: Callable[..., Any], out: Array
) -> None:
    """Find the position of each row's extreme, and take the elements at these positions."""
    find(1, positions)
    np.add(positions, starts, positions)
    take(positions, None, out, "clip")  # "raise" would copy the result: every position is in range


def _run(calls: list[Callable[[], Any]], out: Array) -> Array:
    for call in calls:
        call()
    return out
