"""Module of two linear layers with samples, for training tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex

T = ex.train


def built(optimizer: Any = None, dtype: str = "float32", samples: str = "first", **options: Any) -> Any:
    """Return an attached module of two linear layers."""
    module = T.Module(
        "small", loss=T.MeanSquaredError(), optimizer=optimizer or T.SGD(0.1), dtype=dtype, samples=samples, **options
    )
    module.add_node(T.Linear("hidden", 6, 5, samples))
    module.add_node(ex.relu)
    module.add_node(T.Linear("scores", 5, 2, samples))
    module.attach(seed=3)
    return module


def data(count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return samples of 2 × 3 elements, with two labels each."""
    generator = np.random.default_rng(5)
    return generator.normal(size=(count, 2, 3)), generator.normal(size=(count, 2))
