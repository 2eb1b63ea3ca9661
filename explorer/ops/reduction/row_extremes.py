"""Row-wise extrema of floats, in a quarter to half the time of ``maximum.reduce``.

NumPy processes the last elements of a row one by one if they do not fill a SIMD vector. Without an initial value there
always are such elements, because the reduction starts from the row's first element. For 1,024 rows of 8 float32
numbers, ``maximum.reduce`` takes 45 µs; finding the positions with argmax and reading the elements at these positions
takes 10 µs. For 4,096 rows of 128 numbers, ``maximum.reduce`` takes 370 µs, the same with an initial value of −∞ takes
135 µs, and argmax takes 160 µs (NumPy 2.4, AVX-512). All of these methods propagate NaN.
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
"""ufunc → method that finds the position of the extremum, and the neutral element of the ufunc"""

_BLOCK = 4096
"""maximum number of rows processed at once"""

_LANES = 16
"""number of float32 numbers in a SIMD vector"""


def row_extremes(
    ufunc: np.ufunc, x: Array, axes: tuple[int, ...], out: Array, initial: float | None = None
) -> Callable[[], Array] | None:
    """Return a function that writes the extrema of ``x`` along ``axes`` into ``out``.

    Return None if ``ufunc.reduce`` should be used: for a single row, for rows that are not contiguous or have fewer
    than two elements, and for dtypes other than float32 and float64.
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
    if not x.flags.writeable:  # NumPy's argmax and argmin copy read-only arrays
        return None
    positions = np.empty(min(count, _BLOCK), np.intp)
    starts = np.arange(len(positions)) * length
    calls: list[Callable[[], Any]] = []
    for first in range(0, count, _BLOCK):
        block, part = rows[first : first + _BLOCK], extremes[first : first + _BLOCK]
        find, take, size = getattr(block, method), block.reshape(-1).take, len(block)
        exact = functools.partial(_reduce_zeros, ufunc, block, part)
        calls.append(functools.partial(_take_extremes, find, positions[:size], starts[:size], take, part, exact))
    if initial is not None:
        calls.append(functools.partial(ufunc, extremes, np.array(initial, out.dtype), out=extremes))
    return functools.partial(_run, calls, out)


def _take_extremes(
    find: Callable[..., Any],
    positions: Array,
    starts: Array,
    take: Callable[..., Any],
    out: Array,
    reduce_zeros: Callable[[], None],
) -> None:
    find(1, positions)
    np.add(positions, starts, positions)
    take(positions, None, out, "clip")  # positions are always in range; the mode "raise" would buffer the result
    if np.count_nonzero(out) < len(out):
        reduce_zeros()


def _reduce_zeros(ufunc: np.ufunc, rows: Array, out: Array) -> None:
    """Give extrema that are zero the sign that ``ufunc.reduce`` gives them, if a row contains both zeros."""
    zeros = out == 0
    out[zeros] = ufunc.reduce(rows[zeros], 1)


def _run(calls: list[Callable[[], Any]], out: Array) -> Array:
    for call in calls:
        call()
    return out
