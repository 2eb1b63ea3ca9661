"""Three-dimensional pooling against windows computed one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

X = np.random.default_rng(5).normal(size=(2, 3, 5, 6, 7))


def by_window(reduce: Any, x: np.ndarray, size: Any, strides: Any, padding: Any, fill: float) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), *[(side, side) for side in padding]), constant_values=fill)
    counts = [(n - k) // s + 1 for n, k, s in zip(padded.shape[2:], size, strides, strict=True)]
    y = np.empty((*x.shape[:2], *counts))
    for place in itertools.product(*map(range, counts)):
        window = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, strides, size, strict=True))
        y[(..., *place)] = reduce(padded[(..., *window)], axis=(2, 3, 4))
    return y


@pytest.mark.parametrize(
    ("size", "strides", "padding"), [((2, 3, 2), (1, 2, 3), (1, 1, 0)), ((3, 3, 3), (2, 2, 2), (1, 0, 1))]
)
def test_every_window_returns_its_maximum_and_its_mean(size: Any, strides: Any, padding: Any) -> None:
    largest = by_window(np.max, X, size, strides, padding, -np.inf)
    np.testing.assert_array_equal(ex.evaluate(ex.max_pool3d(X, size, strides, padding)), largest)
    mean = by_window(np.mean, X, size, strides, padding, 0)
    np.testing.assert_allclose(ex.evaluate(ex.avg_pool3d(X, size, strides, padding)), mean, rtol=1e-12, atol=1e-15)
    inside = by_window(np.nanmean, X, size, strides, padding, np.nan)
    y = ex.avg_pool3d(X, size, strides, padding, count_padding=False)
    np.testing.assert_allclose(ex.evaluate(y), inside, rtol=1e-12, atol=1e-15)


def test_the_default_stride_is_the_window_size_and_the_last_window_may_exceed_the_volume() -> None:
    assert ex.max_pool3d(X, 2).shape == (2, 3, 2, 3, 3)
    assert ex.max_pool3d(X, 2, ceil=True).shape == (2, 3, 3, 3, 4)
    assert ex.max_pool3d(X, 2, 1, dilation=(2, 1, 3)).shape == (2, 3, 3, 5, 4)


def test_gradients_of_three_dimensional_pooling() -> None:
    x = ex.tensor(X)
    (g,) = ex.grad(ex.sum(ex.max_pool3d(x, 2) * 2.0), [x])
    y = ex.evaluate(g)
    assert y.sum() == 2 * 2 * 3 * 2 * 3 * 3
    assert set(np.unique(y)) == {0, 2}


def test_images_are_rejected_as_volumes() -> None:
    with pytest.raises(ex.OperandError, match=r"x must be \(N, C, D, H, W\)"):
        ex.avg_pool3d(X[0], 2)
