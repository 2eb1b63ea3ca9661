"""Comparisons as text: differences come first, and differences that follow from others are counted."""

import numpy as np
import pytest

import explorer as ex
from explorer.record import Recording
from explorer.record.compare.comparison import compare
from explorer.view.compare.comparison_text import text
from explorer.view.compare.pair_payload import folds


def products(prefix: str, before: str) -> Recording:
    """Return six products of the operation ``before`` with named arrays."""
    x = getattr(ex, before)(ex.tensor(np.ones((3, 4), np.float32), name="x"))
    plan = ex.EvalPlan()
    for number in range(6):
        named = ex.tensor(np.full((3, 4), number, np.float32), name=f"{prefix}{number}")
        plan.register(ex.tanh(x * named).sum())
    return plan.prepare().recording


@pytest.mark.spec("V-12")
def test_renamed_and_rewired_nodes_have_one_row_each() -> None:
    """Differences come first; six renamed arrays are one row, and so are six products with another operand."""
    comparison = compare(products("w", "exp"), products("v", "sin"))
    lines = text(comparison).splitlines()
    signed = [line for line in lines if line.startswith(("  Δ", "  -", "  +", "  =", "  →"))]
    assert (len(comparison.nodes.renamed), len(comparison.nodes.rewired)) == (6, 6)
    assert [line[:3] for line in signed] == ["  -", "  +", "  →", "  ="]
    assert signed[2] == "  → 6 nodes read something else: multiply reads exp → sin ×6"
    assert signed[3] == "  = 6 nodes renamed: w0 → v0, w1 → v1, w2 → v2 and 3 more"


@pytest.mark.spec("V-12")
def test_a_few_rewired_nodes_are_listed_one_by_one() -> None:
    first, second = products("w", "exp"), products("w", "exp")
    assert folds(compare(first, second)) == []
    x = ex.tensor(np.ones((3, 4), np.float32), name="x")
    plans = [ex.EvalPlan(), ex.EvalPlan()]
    for plan, operation in zip(plans, (ex.exp, ex.sin), strict=True):
        plan.register(ex.tanh(operation(x)))
    comparison = compare(*[plan.prepare().recording for plan in plans])
    assert folds(comparison) == []
    assert "  Δ tanh" in text(comparison)
    assert "reads exp → sin" in text(comparison)


@pytest.mark.spec("V-12")
def test_a_column_of_differences_is_omitted_if_empty() -> None:
    same = text(compare(products("w", "exp"), products("v", "exp")))
    assert " after\n" in same
    assert " difference\n" not in same
    fewer = ex.EvalPlan(without="fuse")
    x = ex.tensor(np.ones((3, 4), np.float32), name="x")
    more = ex.EvalPlan()
    for plan in (fewer, more):
        plan.register(ex.tanh(ex.exp(x)))
        plan.prepare()
    assert " difference\n" in text(compare(more.recording, fewer.recording))
