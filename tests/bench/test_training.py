"""One epoch of training on handwritten digits: a hidden layer, cross-entropy, gradient descent or Adam."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.contest import compared, contest
from tests.bench.digits_contestants import Digits, of_explorer, of_numpy, of_torch
from tests.bench.programs import one_thread

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

PACKAGES = ["numpy", "torch"]


@pytest.mark.parametrize("adam", [False, True], ids=["sgd", "adam"])
@pytest.mark.parametrize(("batch", "hidden"), [(64, 128), (256, 512)])
def test_one_epoch(batch: int, hidden: int, adam: bool) -> None:
    digits = Digits(batch, hidden)
    runs = {"explorer": of_explorer, "NumPy by hand": of_numpy, "torch eager": of_torch}
    contestants = {name: make(digits, adam) for name, make in runs.items()}
    with one_thread():
        for epoch, _ in contestants.values():
            epoch()
        reference = contestants["NumPy by hand"][1]()
        for name, (_, weights) in contestants.items():
            for weight, wanted in zip(weights(), reference, strict=True):
                # as a whole, because Adam's first steps have the size of the rate even for tiny, noisy gradients
                assert np.abs(weight - wanted).mean() < 1e-4, name
        times = contest({name: epoch for name, (epoch, _) in contestants.items()}, rounds=9, burst=3)
    rule = "Adam" if adam else "gradient descent"
    title = f"one epoch, {len(digits.batches)} batches of {batch}, 64-{hidden}-10, {rule}"
    print(compared(title, times, PACKAGES, 1))
