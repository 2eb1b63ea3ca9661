"""The hard swish of 8 bits, of which TensorFlow Lite's kernel rounds every step in whole numbers of 16 bits.

All steps are done once for each of the 256 numbers, since the results are a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tflite.operators.integer_arithmetic import quantized_multipliers

_FLOAT32, _BITS = np.float32, 15
_LEAST, _MOST = -(1 << _BITS), (1 << _BITS) - 1
Numbers = NDArray[np.int64]


def hard_swish(numbers: Numbers, scale: np.float32, own_scale: np.float32) -> Numbers:
    """Return x · relu6(x + 3) / 6 of numbers less their zero point, in the scale of the result."""
    fine = numbers << 7
    finer_scale = _FLOAT32(1 / 128) * scale
    outer, outer_shift = _multiplier(finer_scale / own_scale)
    inner, inner_shift = _multiplier(finer_scale / (_FLOAT32(3) / _FLOAT32(32768)))
    share = _shifted(fine, inner_shift - 1) if inner_shift > 0 else fine
    share = _high(share, inner)
    share = _shifted(share, 1) if inner_shift > 0 else _divided(share, -inner_shift)
    # the share of x lies between −1 and 1 so far: it becomes 0 to 1
    share = (share + (1 << _BITS)) >> 1
    product = share * _high(fine, outer)
    return _divided(np.sign(product) * (np.abs(product) >> _BITS), -outer_shift)


def _multiplier(factor: Any) -> tuple[int, int]:
    """Return a factor as a multiplier of 15 bits, and the power of two to multiply by behind it."""
    multipliers, shifts = quantized_multipliers(np.array(np.float64(factor)))
    return min((int(multipliers[0]) + (1 << 15)) >> 16, _MOST), int(shifts[0])


def _high(numbers: Numbers, multiplier: int) -> Numbers:
    """Return numbers times a multiplier, without its bits, rounded to the nearest, halves away from zero."""
    product = numbers * multiplier
    half = 1 << (_BITS - 1)
    return np.minimum(np.where(product >= 0, product + half >> _BITS, -(half - 1 - product >> _BITS)), _MOST)


def _shifted(numbers: Numbers, bits: int) -> Numbers:
    """Return numbers times a power of two, within 16 bits."""
    return np.clip(numbers * (1 << min(bits, 2 * _BITS)), _LEAST, _MOST)


def _divided(numbers: Numbers, bits: int) -> Numbers:
    """Return numbers over a power of two, rounded to the nearest, halves away from zero."""
    if bits <= 0:
        return numbers << min(-bits, 2 * _BITS)
    mask = (1 << min(bits, 2 * _BITS)) - 1
    return (numbers >> min(bits, 2 * _BITS)) + ((numbers & mask) > (mask >> 1) + (numbers < 0))
