"""Second gradients at difficult points: zeros, ties, and values whose logarithm is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex

STEP = 1e-5


def first(make: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any]:
    """Return the expression Σ direction · gradient, and the operand."""
    operand = ex.tensor(x)
    y = make(operand)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, y.shape)
    return (ex.grad(y, operand, seed=weights) * direction).sum(), operand


@pytest.mark.spec("C-18")
@pytest.mark.parametrize(
    ("make", "x"),
    [
        (ex.prod, [0.0, 2.0, 3.0]),
        (ex.prod, [0.0, 0.0, 3.0, 5.0]),
        (ex.prod, [0.0, 0.0, 0.0]),
        (ex.prod, [2.0]),
        (lambda x: ex.prod(x, 0), [[0.0, 2.0, 3.0], [0.0, 1.0, 2.0], [5.0, 0.5, 0.0]]),
        (lambda x: ex.prod(x, (0, 2)) ** 2, [[[0.0, 2.0], [1.0, 3.0]], [[0.5, 0.0], [1.0, 2.0]]]),
        (lambda x: ex.prod(x, -1, keepdims=True), [[0.0, 2.0, 3.0, 1.0, -1.0]]),
        (lambda x: ex.prod(x, ()), [0.0, 2.0]),
        (lambda x: x**0, [1.0, -2.0]),
        (lambda x: ex.tensor([0.5, 2.0]) ** x, [0.0, 0.0]),
        (lambda x: ex.power(x + 2.0, x), [0.0, 1.0, -1.0]),
        (lambda x: ex.normalize(x, axis=0), [0.3, -0.2]),
    ],
)
def test_second_gradients_equal_differences_of_the_first(make: Callable[[Any], Any], x: Any) -> None:
    """At zeros, too, the gradient of a product is the product of the other elements, and so on."""
    x = np.asarray(x)
    direction = np.random.default_rng(1).uniform(0.5, 1.5, x.shape)
    total, operand = first(make, x, direction)
    result = ex.evaluate(ex.grad(total, operand))
    for index in np.ndindex(x.shape):
        moved = []
        for sign in (-1, 1):
            shifted = x.copy()
            shifted[index] += sign * STEP
            moved.append(float(ex.evaluate(first(make, shifted, direction)[0])))
        np.testing.assert_allclose(result[index], (moved[1] - moved[0]) / (2 * STEP), rtol=1e-5, atol=1e-6)


@pytest.mark.spec("C-18")
def test_the_gradient_of_a_product_neither_overflows_nor_divides() -> None:
    """It contains sums of products of the other elements, some of which are 0 and some huge."""
    x = ex.tensor(np.array([1e300, 1e300, 1e-300, 1e-300]))
    np.testing.assert_allclose(ex.evaluate(ex.grad(ex.prod(x), x)), [1e-300, 1e-300, 1e300, 1e300])
    for count in (1, 2, 3, 5, 8, 13):
        values = np.random.default_rng(count).uniform(0.5, 1.5, (2, count))
        values[0, 0] = 0.0
        operand = ex.tensor(values)
        others = [[np.prod(np.delete(row, place)) for place in range(count)] for row in values]
        np.testing.assert_allclose(ex.evaluate(ex.grad(ex.prod(operand, 1).sum(), operand)), others, rtol=1e-13)
    empty = ex.tensor(np.ones((2, 0)))
    assert ex.evaluate(ex.grad(ex.prod(empty, 1).sum(), empty)).shape == (2, 0)


def test_the_gradient_of_normalized_zeros_is_finite() -> None:
    x = ex.tensor(np.zeros((1, 3)))
    np.testing.assert_allclose(ex.evaluate(ex.grad(ex.normalize(x), x, seed=np.ones((1, 3)))), np.full((1, 3), 1e12))
