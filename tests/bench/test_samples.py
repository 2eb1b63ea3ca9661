"""1000 samples, one call each, in one evaluation of a network 128-256-256-10, without and with gradients."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest

from tests.bench.contest import compared, contest
from tests.bench.programs import one_thread, samples
from tests.bench.sample_contestants import (
    gradients_of_dynet,
    gradients_of_explorer,
    gradients_of_jax,
    gradients_of_numpy,
    gradients_of_torch,
    of_dynet,
    of_explorer,
    of_jax,
    of_numpy,
    of_torch,
)

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

PACKAGES = ["numpy", "jax", "dyNET38", "torch"]


def test_values() -> None:
    """Target: ≤ 1.6 × hand-batched (execution alone ≤ 1.2 ×), and ≤ 0.25 × DyNet if hand-batched is that fast."""
    given = samples()
    with one_thread():
        runs = {}
        for make in (of_explorer, of_numpy, of_jax, of_dynet, of_torch):
            runs |= make(given)
        expected = runs["NumPy hand-batched"]()
        for name, run in runs.items():
            np.testing.assert_allclose(np.array(run()), expected, rtol=1e-4, atol=1e-5, err_msg=name)
        times = contest(runs, rounds=9, clock=process_time)
    print(compared("1000 samples through 128-256-256-10, one call each, 1 thread", times, PACKAGES, 5))
    assert times.keys() == runs.keys()


def test_gradients() -> None:
    """Target: ≤ 0.4 × DyNet if hand-batched is that fast."""
    given = samples()
    with one_thread():
        runs = {}
        for make in (
            gradients_of_explorer,
            gradients_of_numpy,
            gradients_of_jax,
            gradients_of_dynet,
            gradients_of_torch,
        ):
            runs |= make(given)
        expected = runs["NumPy hand-batched"]()
        for name, run in runs.items():
            for result, wanted in zip(run(), expected, strict=True):
                np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-2, err_msg=name)
        times = contest(runs, rounds=5, clock=process_time)
    print(compared("gradients of the parameters for 1000 samples through 128-256-256-10, 1 thread", times, PACKAGES, 4))
    assert times.keys() == runs.keys()
