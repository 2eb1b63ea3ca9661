"""Adaptive pooling: each mean depends only on its window, and each pixel's gradient only on its windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex

CASES = [((4, 6), (2, 3)), ((5, 7), (2, 3)), ((3, 2), (1, 1)), ((2, 3), (5, 4)), ((5, 5), (3, 5))]


def windows(length: int, count: int) -> list[slice]:
    return [slice(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]


def means(pixels: Any, output: tuple[int, int]) -> Any:
    """Return the mean of each window, one by one."""
    rows, columns = (windows(*each) for each in zip(pixels.shape[2:], output, strict=True))
    return np.stack([np.stack([pixels[:, :, r, c].mean(axis=(2, 3)) for c in columns], -1) for r in rows], -2)


@pytest.mark.spec("M-O5")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(("size", "output"), CASES)
def test_a_nan_pixel_affects_only_its_windows(size: tuple[int, int], output: tuple[int, int], special: float) -> None:
    pixels = np.arange(2.0 * size[0] * size[1]).reshape(1, 2, *size)
    pixels[0, 0, 0, 0] = special
    np.testing.assert_allclose(ex.evaluate(ex.adaptive_avg_pool2d(ex.tensor(pixels), output)), means(pixels, output))


@pytest.mark.spec("M-O5")
@pytest.mark.parametrize(("size", "output"), CASES)
def test_a_nan_gradient_affects_only_the_pixels_of_its_window(size: tuple[int, int], output: tuple[int, int]) -> None:
    """Test the gradient, and its gradient, which is a pooling again."""
    x = ex.tensor(np.arange(1.0 * size[0] * size[1]).reshape(1, 1, *size))
    upstream = np.ones((1, 1, *output))
    upstream[0, 0, 0, 0] = np.inf
    weights = ex.tensor(upstream)
    gradient = ex.grad((ex.adaptive_avg_pool2d(x, output) * weights).sum(), x)
    value = ex.evaluate(gradient)
    inside = np.zeros(size, bool)
    inside[windows(size[0], output[0])[0], windows(size[1], output[1])[0]] = True
    np.testing.assert_array_equal(np.isinf(value[0, 0]), inside)
    assert np.isfinite(value[0, 0][~inside]).all()
    again = ex.grad((gradient * x).sum(), weights)
    np.testing.assert_allclose(ex.evaluate(again), means(x.array, output))
