"""First and second gradients of max pooling, with ties, against one pixel selected for each window."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array, Shape

Windows = list[list[range]]
"""indices that each window covers, for each axis"""


def sliding(shape: Shape, size: int, step: int, border: int, gap: int) -> Windows:
    counts = [(length + 2 * border - gap * (size - 1) - 1) // step + 1 for length in shape]
    return [
        [range(i * step - border, i * step - border + gap * (size - 1) + 1, gap) for i in range(count)]
        for count in counts
    ]


def adaptive(shape: Shape, *counts: int) -> Windows:
    return [
        [range(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
        for length, count in zip(shape, counts, strict=True)
    ]


CASES: dict[str, tuple[Callable[[Any], Any], Shape, Windows]] = {
    "2d": (lambda x: ex.max_pool2d(x, 3, 2, 1), (7, 8), sliding((7, 8), 3, 2, 1, 1)),
    "2d overlapping": (lambda x: ex.max_pool2d(x, 2, 1, 0, 2), (5, 6), sliding((5, 6), 2, 1, 0, 2)),
    "3d": (lambda x: ex.max_pool3d(x, 2, 1), (3, 4, 5), sliding((3, 4, 5), 2, 1, 0, 1)),
    "3d padded": (lambda x: ex.max_pool3d(x, 3, 2, 1), (4, 5, 6), sliding((4, 5, 6), 3, 2, 1, 1)),
    "adaptive 1d": (lambda x: ex.adaptive_max_pool(x, 3), (7,), adaptive((7,), 3)),
    "adaptive 2d": (lambda x: ex.adaptive_max_pool(x, (3, 5)), (7, 8), adaptive((7, 8), 3, 5)),
    "adaptive 3d": (lambda x: ex.adaptive_max_pool(x, (2, 1, 3)), (5, 4, 7), adaptive((5, 4, 7), 2, 1, 3)),
}
POINTS: dict[str, Callable[[Shape], Array]] = {
    "ties": lambda shape: np.random.default_rng(0).integers(0, 3, shape).astype(float),
    "equal": np.ones,
    "apart": lambda shape: np.random.default_rng(1).normal(size=shape),
    "infinite": lambda shape: np.where(np.random.default_rng(2).random(shape) < 0.2, np.inf, 1.0),
}


def chosen(x: Array, windows: Windows) -> Array:
    """Return the flat row-major index of the first maximum of each window, as frameworks define it."""
    places = []
    for window in itertools.product(*windows):
        inside = [[i for i in along if 0 <= i < length] for along, length in zip(window, x.shape, strict=True)]
        cells = [*itertools.product(*inside)]
        flat = np.ravel_multi_index(tuple(np.array(cells).T), x.shape)
        places.append(flat[np.argmax(x.reshape(-1)[flat])])
    return np.array(places)


@pytest.mark.spec("U-9")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", CASES)
def test_both_gradients_belong_to_the_first_maximum(name: str, point: str) -> None:
    """The first and the second gradient of max pooling go to the first maximum of each window."""
    pool, shape, windows = CASES[name]
    value = POINTS[point](shape)
    x = ex.tensor(value[None, None])
    y = pool(x)
    random = np.random.default_rng(3)
    weights, directions = random.normal(size=y.shape), random.normal(size=x.shape)
    bent = ex.sigmoid(y)
    first = ex.grad((bent * weights).sum(), x)
    second = ex.grad((first * directions).sum(), x)
    places = chosen(value, windows)
    slope = 1 / (1 + np.exp(-value.reshape(-1)[places]))
    slope, curve = slope * (1 - slope), slope * (1 - slope) * (1 - 2 * slope)
    expected = [np.zeros(value.size), np.zeros(value.size)]
    np.add.at(expected[0], places, weights.reshape(-1) * slope)
    np.add.at(expected[1], places, weights.reshape(-1) * curve * directions.reshape(-1)[places])
    for found, wanted in zip(ex.evaluate([first, second]), expected, strict=True):
        np.testing.assert_allclose(found.reshape(-1), wanted, rtol=1e-12, atol=1e-14)
    # in a batched program, too
    mapped = ex.map(lambda v: ex.grad((ex.sigmoid(pool(v)) * weights).sum(), v), ex.stack([x, 2 * x]))
    np.testing.assert_allclose(ex.evaluate(mapped)[0].reshape(-1), expected[0], rtol=1e-12, atol=1e-14)
