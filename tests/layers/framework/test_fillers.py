"""Fillers: ranges and variances of the random values, determined by a weight's fans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from explorer import layers
from explorer.layers.framework.fillers import Filler


def drawn(filler: Filler, shape: tuple[int, ...]) -> Any:
    return filler.fill(shape, np.random.default_rng(0))


@pytest.mark.spec("M-L3")
@pytest.mark.parametrize(
    ("shape", "inward", "outward"),
    [((40, 90), 40, 90), ((90, 40), 90, 40), ((20, 5, 3, 7), 5 * 21, 20 * 21), ((3000,), 3000, 3000)],
)
@pytest.mark.parametrize("fan", ["in", "out", "avg"])
def test_the_variance_is_the_scale_divided_by_the_fans(
    shape: tuple[int, ...], inward: int, outward: int, fan: str
) -> None:
    """For Glorot's and He's fillers, a uniform one has the range sqrt(3 · variance), and a normal one the variance."""
    connections = {"in": inward, "out": outward, "avg": (inward + outward) / 2}[fan]
    variance = 2.0 / connections
    uniform = drawn(layers.VarScale(2.0, "uniform", fan), shape)  # type: ignore[arg-type]  # a fan
    limit = math.sqrt(3 * variance)
    assert 0.99 * limit < np.abs(uniform).max() <= limit
    for values in (uniform, drawn(layers.VarScale(2.0, "normal", fan), shape)):  # type: ignore[arg-type]  # a fan
        assert values.shape == shape
        assert values.var() == pytest.approx(variance, rel=0.1)
        assert abs(values.mean()) < 4 * math.sqrt(variance / values.size)


def test_ranges_and_deviations_are_the_given_ones() -> None:
    uniform = drawn(layers.Uniform(2.0, 3.0), (3000,))
    assert (uniform >= 2).all()
    assert (uniform < 3).all()
    assert uniform.mean() == pytest.approx(2.5, abs=0.02)
    normal = drawn(layers.Gaussian(5.0, 0.1), (3000,))
    assert (normal.mean(), normal.std()) == pytest.approx((5.0, 0.1), rel=0.05)
    assert (drawn(layers.Constant(4.0), (2, 0, 3)).shape, drawn(layers.Constant(4.0), ()).item()) == ((2, 0, 3), 4.0)
