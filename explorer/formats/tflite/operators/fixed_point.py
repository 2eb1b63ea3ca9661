"""Fixed-point arithmetic on arrays: 32-bit products and reciprocals of fractions.

TensorFlow Lite's quantised kernels use fixed-point arithmetic instead of floats. These functions compute look-up
tables. The expressions in integer_arithmetic.py round in the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.core.types.tensor_type import Array

Numbers = NDArray[np.int64]
BITS = 31
_MOST = (1 << BITS) - 1
_TWO = 1 << 29
"""the number one in fixed point with two integer bits"""


def high_product(x: Array | int, y: Array | int, bits: int = BITS) -> Numbers:
    """Return ``x`` · ``y`` / 2^bits, rounded to the nearest integer, with halves rounded away from zero."""
    product = np.multiply(x, y, dtype=np.int64)
    half, maximum = 1 << (bits - 1), (1 << bits) - 1
    result: Numbers = np.minimum(np.where(product >= 0, product + half >> bits, -(half - 1 - product >> bits)), maximum)
    return result


def rounded_shift(x: Array, bits: Array | int) -> Numbers:
    """Return ``x`` / 2^bits, rounded to the nearest integer, with halves rounded away from zero."""
    mask = (np.int64(1) << np.asarray(bits, np.int64)) - 1
    result: Numbers = (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))
    return result


def scaled_product(x: Array, multiplier: Array | int, shift: Array | int) -> Numbers:
    """Return ``x`` · ``multiplier`` · 2^(shift − 31), rounded after the product and after a shift to the right."""
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift), 0)
    maximum = np.int64(1) << (BITS - left)  # products of larger numbers exceed the limits of any result
    return rounded_shift(high_product(np.clip(x, -maximum, maximum) << left, multiplier), right)


def reciprocals(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return 31-bit multipliers and shifts for positive numbers ``x``, where 1 / x = multiplier · 2^(−31 − shift)."""
    bits = np.frexp(x.astype(np.float64))[1].astype(np.int64)
    # 1 + rest is x, scaled to [1, 2).
    rest = (x << (BITS + 1 - bits)) - (1 << BITS)
    half = _halved(rest + _MOST)
    # Newton iterations for 1 / half, starting from the best linear approximation.
    y = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        y = y + saturated_shift(high_product(y, _TWO - high_product(half, y)), 2)
    return saturated_shift(y, 1), bits - 1


def _halved(x: Numbers) -> Numbers:
    """Return ``x`` / 2, with halves rounded away from zero."""
    half: Numbers = np.sign(x) * ((np.abs(x) + 1) >> 1)
    return half


def saturated_shift(x: Numbers, bits: int, within: int = BITS) -> Numbers:
    """Return ``x`` · 2^bits, clipped to integers with ``within`` bits plus a sign bit."""
    result: Numbers = np.clip(x << bits, -(1 << within), (1 << within) - 1)
    return result
