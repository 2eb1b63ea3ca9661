"""Negative log likelihood: MetaNN's case."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex


def test_metanns_case() -> None:
    """With in = G(.1, .05, 3×4), w = G(.3, .1, 3×4), g = .5: loss −Σ w·ln(in) / Σw, gradient −.5·w / in / Σw."""
    steps = np.arange(12.0).reshape(3, 4)
    given, weights = 0.1 + 0.05 * steps, 0.3 + 0.1 * steps
    w, x = ex.tensor(weights), ex.tensor(given)
    loss = ex.nll_loss(w, x)
    np.testing.assert_allclose(ex.evaluate(loss), -(weights * np.log(given)).sum() / weights.sum(), rtol=1e-14)
    result = ex.evaluate(ex.grad(loss, x, seed=ex.tensor(0.5)))
    np.testing.assert_allclose(result, -0.5 * weights / given / weights.sum(), rtol=1e-14)


INF = np.inf


@pytest.mark.parametrize(
    ("given", "total"), [([-INF, -INF], -INF), ([INF, 0.0], INF), ([-INF, 2.0], 2.0), ([INF, INF], INF)]
)
def test_logsumexp_of_infinite_exponents_follows_the_formula(given: list[float], total: float) -> None:
    """log(e^−∞ + e^−∞) = log 0 = −∞, because an infinite maximum is not subtracted."""
    assert ex.evaluate(ex.logsumexp(ex.tensor(given))) == total


def test_logsumexp_of_a_scalar_over_no_axis_is_the_scalar() -> None:
    assert float(ex.evaluate(ex.logsumexp(ex.tensor(0.1), axis=()))) == 0.1


def test_softmax_of_an_infinite_exponent_follows_the_formula() -> None:
    np.testing.assert_array_equal(ex.evaluate(ex.softmax(ex.tensor([-INF, 1.0]))), [0.0, 1.0])
    np.testing.assert_array_equal(ex.evaluate(ex.softmax(ex.tensor([INF, 1.0]))), [np.nan, 0.0])
    np.testing.assert_array_equal(ex.evaluate(ex.log_softmax(ex.tensor([-INF, -INF]))), [np.nan, np.nan])


@pytest.mark.parametrize("axes", [(1,), (0, 1)])
def test_bound_calls_of_log_softmax_keep_their_bits(axes: tuple[int, ...]) -> None:
    """They read the current operand at each call, including infinities."""
    rows = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    rows[0, 1] = -np.inf
    operand, out, expected = np.empty_like(rows), np.empty_like(rows), np.empty_like(rows)
    operation = ex.log_softmax(ex.tensor(rows), axes).operation
    run = operation.bind_kernel(out, operand)
    for scale in (1, 1000):
        operand[...] = rows * scale
        with np.errstate(all="ignore"):
            assert run() is out
            operation.kernel(expected, operand)
        np.testing.assert_array_equal(out.view(np.int32), expected.view(np.int32))
