"""The negative log likelihood: MetaNN's case."""

from __future__ import annotations

import numpy as np

import explorer as ex


def test_metanns_case() -> None:
    """in = G(.1, .05, 3×4), w = G(.3, .1, 3×4), g = .5: loss −Σ w·ln(in) / Σw, gradient −.5·w / in / Σw."""
    steps = np.arange(12.0).reshape(3, 4)
    given, weights = 0.1 + 0.05 * steps, 0.3 + 0.1 * steps
    w, x = ex.tensor(weights), ex.tensor(given)
    loss = ex.nll_loss(w, x)
    np.testing.assert_allclose(ex.evaluate(loss), -(weights * np.log(given)).sum() / weights.sum(), rtol=1e-14)
    found = ex.evaluate(ex.grad(loss, x, seed=ex.tensor(0.5)))
    np.testing.assert_allclose(found, -0.5 * weights / given / weights.sum(), rtol=1e-14)
