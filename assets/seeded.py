"""Weights made from nothing but their names and shapes, so that a real model's text alone can be run and compared.

They depend on the raw bits of PCG64 only, which NumPy promises to keep; another version draws the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def uniform(name: str, shape: Sequence[int]) -> NDArray[np.float64]:
    """Numbers in [-1, 1) that belong to a name."""
    bits = np.random.PCG64(zlib.crc32(name.encode())).random_raw(int(np.prod(shape, dtype=np.int64)))
    return ((bits >> np.uint64(11)) * 2.0**-52 - 1).reshape(shape)


def weight(name: str, shape: Sequence[int]) -> NDArray[np.float32]:
    """A weight for ``operator.attribute``, scaled as K. He et al. 2015 do, so that activations neither fade nor grow.

    A variance is positive, the scale of a normalisation near one, a bias small.
    """
    drawn = uniform(name, shape)
    kind = name.rpartition(".")[2]
    if kind == "running_var":
        made = 1 + drawn / 2
    elif len(shape) < 2:
        made = (1 if kind == "weight" else 0) + drawn / 5
    else:
        made = drawn * np.sqrt(3 * 2 / np.prod(shape[1:]))
    return made.astype(np.float32)


def given(name: str, shape: Sequence[int], dtype: str, below: int = 100) -> NDArray[np.generic]:
    """An input: numbers in [-1, 1), or integers from 0 up to, and without, ``below``."""
    drawn = uniform(name, shape)
    return ((drawn + 1) / 2 * below).astype(dtype) if dtype.startswith("int") else drawn.astype(dtype)


def places(size: int, count: int) -> NDArray[np.intp]:
    """``count`` places in a flat array, evenly spread from its first element to its last."""
    return np.linspace(0, size - 1, count).round().astype(np.intp)
