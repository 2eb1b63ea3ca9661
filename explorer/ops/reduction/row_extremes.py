"""Extrema of rows of floats in a quarter to half of the time of ``maximum.reduce``.

NumPy processes a row's last elements, which do not fill a SIMD vector, one by one. Without an initial value there is
always such a remainder, because the reduction starts from the first element. For 1,024 rows of 8 float32 numbers
``maximum.reduce`` takes 45 µs, and taking the elements at the positions from argmax takes 10 µs. For 4,096 rows of 128
it takes 370 µs; an initial value of −∞ takes 135 µs, and argmax takes 160 µs (NumPy 2.4, AVX-512). All of them
propagate NaN.
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
"""ufunc → method that finds the extremum's position, and the ufunc's neutral element"""

_BLOCK = 4096
"""number of rows whose positions are stored at a time"""

_LANES = 16
"""float32 numbers per SIMD vector"""


def row_extremes(
    ufunc: np.ufunc, x: Array, axes: tuple[int, ...], out: Array, initial: float | None = None
) -> Callable[[], Array] | None:
    """Return a function that writes the extrema of ``x`` along ``axes`` into ``out``, for these arrays.

    Return None if ``ufunc.reduce`` is as fast or required: for a single row, rows that are not contiguous, rows with
    fewer than two elements, and dtypes other than float32 and float64.
    """
    if ufunc not in _FINDERS or not isinstance(x, np.ndarray) or x.dtype.char not in "fd" or x.dtype != out.dtype:
        return None
    kept_rank = x.ndim - len(axes)
    if axes != tuple(range(kept_rank, x.ndim)) or not (x.flags.c_contiguous and out.flags.c_contiguous):
        return None
    count = math.prod(x.shape[:kept_rank])
    if count < 2 or x.size < 2 * count:
        return None
    rows, extremes = x.reshape(count, -1), out.reshape(-1)
    method, neutral = _FINDERS[ufunc]
    length = rows.shape[1]
    if x.dtype.char == "f" and length >= 2 * _LANES and length % _LANES <= _LANES // 4:
        reduce: Callable[..., Any] = ufunc.reduce
        start = neutral if initial is None else initial
        return functools.partial(_run, [functools.partial(reduce, rows, 1, None, extremes, False, start)], out)
    if not x.flags.writeable:  # NumPy copies read-only arrays in argmax and argmin
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
    """Find the position of each row's extremum, and take the elements at these positions."""
    find(1, positions)
    np.add(positions, starts, positions)
    take(positions, None, out, "clip")  # positions are in range; mode "raise" would buffer the result


def _run(calls: list[Callable[[], Any]], out: Array) -> Array:
    for call in calls:
        call()
    return out
