"""Comparisons as text: what differs comes first, and what follows from it is counted."""

import numpy as np
import pytest

import explorer as ex
from explorer.record import Recording
from explorer.record.compare.comparison import compare
from explorer.view.compare.comparison_text import text


def products(prefix: str, before: str) -> Recording:
    """Six products of an operation by name with named arrays."""
    x = getattr(ex, before)(ex.tensor(np.ones((3, 4), np.float32), name="x"))
    plan = ex.EvalPlan()
    for number in range(6):
        named = ex.tensor(np.full((3, 4), number, np.float32), name=f"{prefix}{number}")
        plan.register(ex.tanh(x * named).sum())
    return plan.prepare().recording


@pytest.mark.spec("V-12")
def test_renamed_nodes_and_those_that_read_something_else_are_counted() -> None:
    """What differs stands first; of six renamed arrays, three; six equal rows are one."""
    found = compare(products("w", "exp"), products("v", "sin"))
    lines = text(found).splitlines()
    signs = [line[:3] for line in lines if line.startswith(("  Δ", "  -", "  +", "  ="))]
    assert (len(found.nodes.renamed), len(found.nodes.rewired)) == (6, 6)
    assert signs == ["  -", "  +", "  Δ", "  =", "  =", "  ="]
    assert lines.count("  … and 3 more") == 1
