"""Weights that depend only on their names and shapes, so that model files without weights can be run and compared.

They use only the raw bits of PCG64, which NumPy guarantees not to change between versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def uniform(name: str, shape: Sequence[int]) -> NDArray[np.float64]:
    """Return numbers in [-1, 1), seeded by a name."""
    bits = np.random.PCG64(zlib.crc32(name.encode())).random_raw(int(np.prod(shape, dtype=np.int64)))
    return ((bits >> np.uint64(11)) * 2.0**-52 - 1).reshape(shape)


def weight(name: str, shape: Sequence[int]) -> NDArray[np.float32]:
    """Return a weight for ``operator.attribute``, with the scale of K. He et al. 2015, which keeps activations stable.

    Variances are positive, scales of normalisations near one, and biases small.
    """
    drawn = uniform(name, shape)
    kind = name.rpartition(".")[2]
    if kind == "running_var":
        weights = 1 + drawn / 2
    elif len(shape) < 2:
        weights = (1 if kind == "weight" else 0) + drawn / 5
    else:
        weights = drawn * np.sqrt(3 * 2 / np.prod(shape[1:]))
    return weights.astype(np.float32)


def given(name: str, shape: Sequence[int], dtype: str, below: int = 100) -> NDArray[np.generic]:
    """Return an input: numbers in [-1, 1), or integers from 0 to ``below`` − 1."""
    drawn = uniform(name, shape)
    return ((drawn + 1) / 2 * below).astype(dtype) if dtype.startswith("int") else drawn.astype(dtype)


def places(size: int, count: int) -> NDArray[np.intp]:
    """Return ``count`` evenly spaced indices into a flat array, including its first and last element."""
    return np.linspace(0, size - 1, count).round().astype(np.intp)
