"""The error function and functions of it, against Python's."""

from __future__ import annotations

import math

import numpy as np

from explorer.ops.elementwise.erf import erf
from explorer.ops.nn.activation import Gelu


def test_erf_is_accurate_to_the_last_digits() -> None:
    """Test all four ranges of the approximation, their limits, and large numbers."""
    borders = [0.84375, 1.25, 1 / 0.35, 6.0]
    near = borders + [np.nextafter(border, side) for border in borders for side in (0.0, 9.0)]
    x = np.concatenate([np.linspace(-7, 7, 20001), near, np.negative(near), [0.0, -0.0, 1e-300, 40.0, np.inf, -np.inf]])
    expected = np.array([math.erf(value) for value in x])
    result = erf.compute(x)
    assert np.max(np.abs(result - expected) / np.maximum(np.abs(expected), 1e-300)) < 4e-16
    assert np.signbit(result[x == 0]).tolist() == np.signbit(x[x == 0]).tolist()
    assert np.isnan(erf.compute(np.array([np.nan, 1.0])))[0]
    assert erf.compute(np.array(0.5)).shape == ()
    assert erf.compute(np.array([0.5], np.float32)).dtype == np.float32
    assert erf.compute(np.array([1, 2])).dtype == np.float64


def test_gelu_of_large_numbers_is_its_limit() -> None:
    x = np.array([-40.0, 40.0])
    for approximate in (False, True):
        np.testing.assert_array_equal(Gelu(approximate).compute(x), [0, 40])


def test_single_precision_is_accurate_to_four_ulps() -> None:
    """Test float32 and float16 with signed zeros, the smallest numbers, both limits and NaN."""
    x = np.concatenate([np.linspace(-5, 5, 20_001), np.logspace(-44, 0, 500)]).astype(np.float32)
    expected = np.array([math.erf(value) for value in x.astype(np.float64)])
    result = erf.compute(x)
    assert result.dtype == np.float32
    assert np.all(np.abs(result - expected) <= 4 * np.spacing(np.abs(expected).astype(np.float32)))
    assert np.all(np.abs(result) <= 1)
    edges = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(erf.compute(edges), np.array([1, -1, np.nan, 0, -0.0], np.float32))
    assert np.signbit(erf.compute(edges)[-1])
    half = erf.compute(x.astype(np.float16))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, rtol=2e-3, atol=1e-4)
