"""Embeddings in modules: rows by index, their gradients, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

T = ex.train
WORDS, LABELS = np.array([[1, 4, 1], [0, 2, 4], [1, 1, 1]]), np.array([0, 1, 1])


def built() -> Any:
    module = T.Module("m", loss=T.CrossEntropy(), optimizer=T.SGD(1.0), dtype="float64")
    module.add_node(T.Embedding("words", 6, 4))
    module.add_node(T.LSTM("memory", 4, 3, last=True))
    module.add_node(T.Linear("head", 3, 2))
    module.attach(seed=2)
    return module


@pytest.mark.spec("T-5", "T-6")
@pytest.mark.parametrize("whole", [True, False])
def test_only_rows_that_are_read_are_trained(whole: bool) -> None:
    """Each row is trained with the sum of its gradients, compared with finite differences."""
    module = built()
    rows = module.parameters["words/weight"].array.copy()
    if whole:
        module.train_on(WORDS, LABELS)
    else:
        module.forward(WORDS)
        module.backward(LABELS)
        module.step()
    moved = module.parameters["words/weight"].array - rows
    assert not moved[[3, 5]].any()
    other = built()
    for index in np.ndindex(rows.shape):
        losses = []
        for step in (1e-6, -1e-6):
            changed = rows.copy()
            changed[index] += step
            other.parameters["words/weight"].assign(changed)
            losses.append(T.CrossEntropy()(other.predict(WORDS), LABELS))
        assert -moved[index] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-4, abs=1e-8)


@pytest.mark.spec("T-5")
def test_outputs_are_the_indexed_rows() -> None:
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    module.add_node(T.Embedding("words", 6, 4))
    module.attach()
    rows = module.parameters["words/weight"].array
    for dtype in ("int64", "uint8"):
        np.testing.assert_array_equal(module.predict(WORDS.astype(dtype)), rows[WORDS])


def test_indices_out_of_range_raise_an_error() -> None:
    module = built()
    for wrong in (6, -1):
        with pytest.raises(ex.RunError, match=f"label {wrong} with 6 classes"):
            module.train_on(np.full((1, 3), wrong), LABELS[:1])
    with refused(ex.OperandError, "must be integers"):
        module.predict(np.ones((2, 3)))
    for count, features in ((0, 4), (3, 1.5)):
        with refused(ex.DeclarationError, "integer of 1 or more"):
            T.Embedding("words", count, features)  # type: ignore[arg-type]
