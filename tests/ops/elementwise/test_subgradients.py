"""Gradients at kinks, limits, ties and singular points: PyTorch's values, finite for two derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array

pytestmark = pytest.mark.spec("U-9")

KINKS: dict[str, tuple[Callable[[Any], Any], dict[float, float]]] = {
    "relu": (ex.relu, {0: 0}),
    "relu6": (ex.relu6, {0: 0, 6: 0, 3: 1}),
    "clip": (lambda x: ex.clip(x, -1, 1), {-1: 1, 1: 1, 2: 0}),
    "clip by tensors": (lambda x: ex.clip(x, np.array([-1.0]), np.array([1.0])), {-1: 1, 1: 1, 2: 0}),
    "hardsigmoid": (ex.hardsigmoid, {-3: 0, 3: 0}),
    "hardswish": (ex.hardswish, {-3: 0, 3: 1}),
    "leaky_relu": (lambda x: ex.leaky_relu(x, 0.1), {0: 0.1}),
    "prelu": (lambda x: ex.prelu(x, 0.25), {0: 0.25}),
    "elu": (lambda x: ex.elu(x, 0.5), {0: 0.5}),
    "celu": (lambda x: ex.celu(x, 0.5), {0: 1}),
    "softshrink": (ex.softshrink, {0.5: 0, -0.5: 0}),
    "hardshrink": (ex.hardshrink, {0.5: 0, -0.5: 0}),
    "threshold": (lambda x: ex.threshold(x, 0.5, 2.0), {0.5: 0}),
    "absolute": (ex.absolute, {0: 0}),
    "sign": (ex.sign, {0: 0}),
    "copysign": (lambda x: ex.copysign(x, -1.0), {0: 0, 2: -1}),
    "maximum": (lambda x: ex.maximum(x, 1.0), {1: 0.5}),
    "fmax": (lambda x: ex.fmax(x, 1.0), {1: 1}),
    "fmin": (lambda x: ex.fmin(x, 1.0), {1: 1}),
    "square root": (ex.sqrt, {0: np.inf}),
    "norm": (lambda x: ex.vector_norm(x), {0: 0}),
    "norm of order 3": (lambda x: ex.vector_norm(x, 3), {0: 0, 2: 1}),
    "norm of order 1/2": (lambda x: ex.vector_norm(x, 0.5), {0: 0, 2: 1}),
    "standard deviation": (ex.std, {0: 0, 1: 0}),
    "hypot": (lambda x: ex.hypot(x, 0.0), {0: 0, -2: -1}),
    "power": (lambda x: x**2.5, {0: 0}),
    "power of zero": (lambda x: ex.power(ex.tensor(np.zeros(1)), x), {0: 0, 1: 0, -1: -np.inf}),
    "remainder": (lambda x: ex.remainder(1.0, x), {0.1: -9, np.inf: 0}),
    "remainder of a negative number": (lambda x: ex.remainder(-1.0, x), {np.inf: 1}),
    "fmod": (lambda x: ex.fmod(1.0, x), {0.1: -9, np.inf: 0}),
}


@pytest.mark.parametrize("name", KINKS)
def test_a_kink_has_its_subgradient(name: str) -> None:
    """Subgradients at kinks equal torch's, and the second gradient is finite wherever the first one is."""
    function, slopes = KINKS[name]
    zeros = [(-0.0, slope) for point, slope in slopes.items() if point == 0 and np.isfinite(slope)]
    for point, slope in (*slopes.items(), *zeros):
        x = ex.tensor(np.array([float(point)]))
        first = ex.grad(function(x).sum(), x)
        with np.errstate(all="ignore"):
            values = ex.evaluate([first, ex.grad(first.sum(), x)])
        assert values[0][0] == pytest.approx(slope, abs=1e-12), point
        assert np.isfinite(values[1][0]) or not np.isfinite(slope), point


ANGLES = [(0.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (3.0, 4.0), (0.0, -2.0), (1e-25, 1e-25), (1e25, -1e25), (1e-30, 3.0)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("y", "x"), ANGLES)
def test_the_gradient_of_an_angle(y: float, x: float, dtype: str) -> None:
    """arctan2 has the gradient 0 at the origin, and x / r², −y / r² elsewhere, even where r² over- or underflows."""
    operands = [ex.tensor(np.array(value, dtype)) for value in (y, x)]
    first = ex.grad(ex.arctan2(*operands), operands)
    second = ex.grad(first[0] + first[1], operands)
    with np.errstate(all="ignore"):
        values = ex.evaluate([*first, *second])
    exact = np.array([operand.array for operand in operands], np.longdouble)
    square = (exact**2).sum() or 1
    np.testing.assert_allclose(
        values[:2], [exact[1] / square, -exact[0] / square], rtol=1e-6 if dtype == "float32" else 1e-14
    )
    # 1 / r² itself exceeds float32 for r = 1e-25
    assert np.isfinite(values[2:]).all() or 0 < np.hypot(x, y) < 1e-20


def test_an_unselected_branch_has_no_gradient() -> None:
    """At the origin, arctan2 and hypot have no NaN gradient if ``where`` selects another value."""
    a = ex.tensor(np.array([3.0, 0.0, -5.0]))
    for function in (ex.arctan2, ex.hypot, lambda x, y: ex.vector_norm(ex.stack([x, y]), 3, 0)):
        y = np.where(np.array([True, False, True]), function(a, a), 0.0)
        first = ex.grad(ex.sum(y), a)
        values: list[Array] = ex.evaluate([first, ex.grad(first.sum(), a)])
        assert all(value[1] == 0 and np.isfinite(value).all() for value in values)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_relu_keeps_the_sign_of_zero(dtype: str) -> None:
    """relu(−0.0) is −0.0 in every dtype, alone and in a fused kernel, for small and large operands."""
    for count in (1, 3, 64, 100_000):
        x = ex.tensor(np.full(count, -0.0, dtype))
        for value in ex.evaluate([ex.relu(x), ex.relu(x + x) * 0.5]):
            assert np.signbit(value).all()


@pytest.mark.parametrize("condition", [True, False, 1, 0, 2.5, np.True_, np.array(False)])
def test_where_accepts_a_scalar_condition(condition: Any) -> None:
    """np.where and ex.where accept a Python boolean or number for all elements."""
    x, y = ex.tensor([1.0, 2.0]), ex.tensor([3.0, 4.0])
    expected = np.where(condition, [1.0, 2.0], [3.0, 4.0])
    for choice in (np.where(condition, x, y), ex.where(condition, x, y)):
        np.testing.assert_array_equal(ex.evaluate(choice), expected)
        assert choice.dtype == x.dtype
    np.testing.assert_array_equal(ex.evaluate(ex.grad(ex.where(condition, x, y).sum(), x)), np.full(2, bool(condition)))


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_gradients_at_the_outermost_grid_points(padding: str) -> None:
    """Points on the outermost elements, where sampling ends or reflects, have the gradient 0."""
    x = ex.tensor(np.array([[[1.0, 2.0, 4.0]]]))
    grid = ex.tensor(np.array([-1.0, -0.5, 0.5, 1.0]).reshape(1, 4, 1))
    y = ex.grid_sample(x, grid, padding=padding, align_corners=True)
    np.testing.assert_allclose(ex.evaluate(ex.grad(y.sum(), grid)).ravel(), [0, 1, 2, 0])


def test_the_second_gradient_of_small_and_large_hypotenuses() -> None:
    """No intermediate value of the curvature b² / r³ over- or underflows."""
    for size in (1e-200, 1.0, 1e200):
        a, b = ex.tensor(np.array(3 * size)), ex.tensor(np.array(4 * size))
        curvature = ex.evaluate(ex.grad(ex.grad(ex.hypot(a, b), a), a))
        assert curvature == pytest.approx(16 / 125 / size, rel=1e-12)
