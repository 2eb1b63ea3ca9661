"""The negative log likelihood: MetaNN's case, and zeros in truth and prediction."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex


@pytest.mark.parametrize("batched", [False, True])
def test_where_the_truth_is_zero_the_prediction_does_not_matter(batched: bool) -> None:
    """A class that is not the truth may have probability 0: its term and its gradient are 0, not NaN."""
    truth, prediction = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.5, 0.5]])
    t, p = ex.tensor(truth), ex.tensor(prediction)
    if batched:
        losses = ex.nll_loss.batch(2, (True, True), ex.stack([t, t]), ex.stack([p, p]))
        one = ex.tensor(1.0)
        operation = ex.nll_loss_gradient
        gradients = operation.batch(2, (False, True, True), one, ex.stack([t, t]), ex.stack([p, p]))
        loss, gradient = losses[1], gradients[1]
    else:
        loss = ex.nll_loss(t, p)
        gradient = ex.grad(loss, p)
    assert float(loss) == pytest.approx(np.log(2) / 2)
    np.testing.assert_allclose(ex.evaluate(gradient), [[0.0, -0.5], [-1.0, 0.0]])


def test_an_impossible_truth_is_infinitely_unlikely() -> None:
    assert float(ex.nll_loss(ex.tensor([1.0, 0.0]), ex.tensor([0.0, 1.0]))) == np.inf


def test_metanns_case() -> None:
    """in = G(.1, .05, 3×4), w = G(.3, .1, 3×4), g = .5: loss −Σ w·ln(in) / Σw, gradient −.5·w / in / Σw."""
    steps = np.arange(12.0).reshape(3, 4)
    given, weights = 0.1 + 0.05 * steps, 0.3 + 0.1 * steps
    w, x = ex.tensor(weights), ex.tensor(given)
    loss = ex.nll_loss(w, x)
    np.testing.assert_allclose(ex.evaluate(loss), -(weights * np.log(given)).sum() / weights.sum(), rtol=1e-14)
    found = ex.evaluate(ex.grad(loss, x, seed=ex.tensor(0.5)))
    np.testing.assert_allclose(found, -0.5 * weights / given / weights.sum(), rtol=1e-14)
