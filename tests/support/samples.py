"""Thirty rows of samples, and the parameters of a layer for them."""

from __future__ import annotations

import numpy as np

import explorer as ex

ROWS = np.random.default_rng(0).standard_normal((30, 16)).astype(np.float32)


def weights() -> tuple[ex.Tensor, ex.Tensor]:
    """Return an identity weight and a bias of ones."""
    w = ex.tensor(np.eye(16, dtype=np.float32), name="w")
    return w, ex.tensor(np.ones(16, np.float32), name="b")
