"""Central differences, which gradients are compared with."""

from __future__ import annotations

import numpy as np

from explorer.core.types.tensor_type import Array
from tests.laws.cases import Case

STEP = 1e-5


def value(case: Case, arrays: list[Array], weights: Array) -> float:
    return float(np.sum(np.asarray(case.operation.compute(*arrays), np.float64) * weights))


def differences(case: Case, arrays: list[Array], place: int, weights: Array) -> Array:
    """Central differences of Σ weights · result."""
    found = np.zeros(arrays[place].shape)
    for index in np.ndindex(found.shape):
        low, high = ([array.copy() for array in arrays] for _ in range(2))
        low[place][index] -= STEP
        high[place][index] += STEP
        found[index] = (value(case, high, weights) - value(case, low, weights)) / (2 * STEP)
    return found


def weights_of(case: Case) -> Array:
    type_ = case.operation.type_of(case.types)
    return np.random.default_rng(1).uniform(0.5, 1.5, type_.shape).astype(type_.dtype)
