"""Central differences, which gradients are compared with."""

from __future__ import annotations

import numpy as np

from explorer.core.types.tensor_type import Array, TensorType
from explorer.testing.laws.cases import Case

STEP = 1e-5


def weighted_sum(case: Case, arrays: list[Array], weights: Array) -> float:
    """Return Σ weights · result."""
    return float(np.sum(np.asarray(case.operation.compute(*arrays), np.float64) * weights))


def differences(case: Case, arrays: list[Array], place: int, weights: Array) -> Array:
    """Return central differences of Σ weights · result in each element of one operand."""
    slopes = np.zeros(arrays[place].shape)
    for index in np.ndindex(slopes.shape):
        low, high = ([array.copy() for array in arrays] for _ in range(2))
        low[place][index] -= STEP
        high[place][index] += STEP
        slopes[index] = (weighted_sum(case, high, weights) - weighted_sum(case, low, weights)) / (2 * STEP)
    return slopes


def weights_of(case: Case) -> Array:
    """Return an upstream gradient for the result of a case: one weight for each element."""
    type_ = case.operation.type_of(case.types)
    assert isinstance(type_, TensorType)
    return np.random.default_rng(1).uniform(0.5, 1.5, type_.shape).astype(type_.dtype)
