"""Pruning: nodes that no root needs are removed and counted."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.plan import plan
from tests.support.decisions import codes, facts

x = ex.tensor(np.arange(12.0).reshape(3, 4), name="x")


@pytest.mark.spec("P-3", headline=True)
def test_unneeded_nodes_are_pruned_with_their_count_and_readers() -> None:
    """Remove nodes that no root needs; the decision states their number and their readers."""
    planned = plan([ex.log(ex.exp(x + 1))])
    assert codes(planned, "prune") == ["unneeded"]
    assert facts(planned, "unneeded")["count"] == 1
    assert [node.operation.name for node in facts(planned, "unneeded")["readers"]] == ["log"]


@pytest.mark.spec("P-3")
def test_the_gradient_of_a_value_unused_by_the_loss_has_a_decision() -> None:
    w = ex.tensor(np.ones(4))
    planned = plan([ex.grad(x.sum(), w)])
    assert codes(planned, "simplify") == ["unreached"]
