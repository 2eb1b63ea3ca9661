"""Arithmetic of integers that represent parts of one, on arrays: products and reciprocals of 32 bits.

TensorFlow Lite's kernels of quantised numbers use it in place of floating numbers. It makes tables of results here; the
expressions of integer_arithmetic.py round the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.core.types.tensor_type import Array

Numbers = NDArray[np.int64]
BITS = 31
_MOST = (1 << BITS) - 1
_TWO = 1 << 29
"""one, where two bits are before the point"""


def high(x: Array | int, y: Array | int, bits: int = BITS) -> Numbers:
    """Return products without their lower bits, rounded to the nearest, halves away from zero."""
    product = np.multiply(x, y, dtype=np.int64)
    half, most = 1 << (bits - 1), (1 << bits) - 1
    result: Numbers = np.minimum(np.where(product >= 0, product + half >> bits, -(half - 1 - product >> bits)), most)
    return result


def divided(x: Array, bits: Array | int) -> Numbers:
    """Return numbers over powers of two, rounded to the nearest, halves away from zero."""
    mask = (np.int64(1) << np.asarray(bits, np.int64)) - 1
    result: Numbers = (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))
    return result


def multiplied(x: Array, multiplier: Array | int, shift: Array | int) -> Numbers:
    """Return numbers times multiplier · 2^(shift − 31), rounded after the product and after a shift to the right."""
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift), 0)
    most = np.int64(1) << (BITS - left)  # beyond it the product is beyond the limits of any result
    return divided(high(np.clip(x, -most, most) << left, multiplier), right)


def reciprocals(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return for positive numbers multipliers of 31 bits and shifts: 1 / x = multiplier · 2^(−31 − shift)."""
    bits = np.frexp(x.astype(np.float64))[1].astype(np.int64)
    # 1 + the rest is x without its highest bit
    rest = (x << (BITS + 1 - bits)) - (1 << BITS)
    half = _halved(rest + _MOST)
    # Newton's steps for 1 / half, from the best line
    y = 1515870810 + high(half, -1010580540)
    for _ in range(3):
        y = y + saturated(high(y, _TWO - high(half, y)), 2)
    return saturated(y, 1), bits - 1


def _halved(x: Numbers) -> Numbers:
    """Return halves, rounded away from zero."""
    half: Numbers = np.sign(x) * ((np.abs(x) + 1) >> 1)
    return half


def saturated(x: Numbers, bits: int, within: int = BITS) -> Numbers:
    """Return numbers times a power of two, within so many bits and a sign."""
    result: Numbers = np.clip(x << bits, -(1 << within), (1 << within) - 1)
    return result
