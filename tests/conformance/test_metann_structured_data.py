"""MetaNN's structured tensors: rules use constants and one-hot rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex

LABELS = np.array([2, 0, 3, 2, 1])


def decisions(*roots: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the values of expressions and the decisions of their plan."""
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return [handle.data() for handle in handles], plan.recording.decisions


def codes(found: list[Any], applied: bool = True) -> set[str]:
    return {decision.code for decision in found if (decision.verdict == "applied") == applied}


@pytest.mark.spec("M-D2")
@pytest.mark.parametrize(
    ("write", "code"),
    [
        (lambda x: x + ex.ZeroTensor(x.shape, x.dtype), "zero_term"),
        (lambda x: x * ex.ZeroTensor(x.shape, x.dtype), "zero_product"),
        (lambda x: x * ex.TrivialTensor(1.0, x.shape, x.dtype), "neutral"),
        (lambda x: ex.BiasVector(4, 2, 3.0, x.dtype) @ x.T, "one_hot_product"),
        (lambda x: x @ ex.BiasVector(4, 2, 1.0, x.dtype), "one_hot_product"),
        (lambda x: ex.one_hot(LABELS, 4, x.dtype) @ x.T, "one_hot_rows"),
        (lambda x: x @ ex.one_hot(LABELS, 4, x.dtype).T, "one_hot_rows"),
        (lambda x: x.T[:3] @ ex.one_hot(LABELS, 4, x.dtype), "one_hot_rows"),
        (lambda x: ex.one_hot(LABELS, 4, x.dtype).T @ x, "one_hot_rows"),
    ],
)
def test_rules_use_the_structure(write: Callable[[Any], Any], code: str) -> None:
    """Test x + 0, x · 0, x · 1, and products with one-hot rows, which select or add rows if NaN may be lost."""
    x = ex.tensor(np.random.default_rng(1).normal(size=(5, 4)))
    (short,), taken = decisions(write(x), numerics="fast" if code.startswith("one_hot") else "safe")
    (plain,), declined = decisions(write(x), without=() if code.startswith("one_hot") else "simplify")
    assert not code.startswith("one_hot") or "changes_rounding" in codes(declined, applied=False)
    assert code in codes(taken)
    np.testing.assert_allclose(short, plain, rtol=1e-12)


@pytest.mark.spec("M-D2")
def test_remaining_products_with_one_hot_rows_have_reasons() -> None:
    """Test a batch of matrices and another dtype."""
    rows = ex.one_hot(LABELS, 4, np.float64)
    batch, narrow = ex.tensor(np.ones((2, 4, 3))), ex.tensor(np.ones((4, 3), np.float32))
    (several, converted), taken = decisions(rows @ batch, rows @ narrow)
    assert (several.shape, converted.dtype) == ((2, 5, 3), np.float64)
    assert {"batched", "dtype"} <= codes(taken, applied=False)


@pytest.mark.spec("M-D2")
def test_labels_out_of_range_raise_an_error() -> None:
    """A one-hot row with an invalid class is an error even when products become row selections."""
    with pytest.raises(ex.RunError, match="label 4 with 4 classes"):
        ex.evaluate(ex.one_hot(np.array([0, 4]), 4, np.float64) @ np.ones((4, 3)))
