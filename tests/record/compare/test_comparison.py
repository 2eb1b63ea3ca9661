"""Comparison of two recordings: counts, decisions of one side, kernels, and their order."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import explorer as ex
from explorer.record import Recording
from explorer.record.compare.comparison import compare
from tests.support.programs import programs


def recorded(*roots: Any, **options: Any) -> Recording:
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare().recording


def network(activation: Any = ex.tanh) -> ex.Expr:
    x, w = ex.tensor(np.ones((3, 4), np.float32), name="x"), ex.tensor(np.ones((4, 2), np.float32), name="w")
    return activation(x @ w + 1.0) * 2.0


def without_decisions(recording: Recording) -> Recording:
    """Return the same plan without any decision."""
    value = copy.copy(recording)
    value.decisions = []
    value.substitutions, value.groups = [], []
    return value


@pytest.mark.spec("P-9")
def test_counts_equal_those_of_the_planned_graph() -> None:
    """Nodes, operations, kernels and temporaries are counted; a returned value is no temporary."""
    root = network()
    comparison = compare(recorded(root), recorded(root, without=["fuse"])).counts
    assert comparison["nodes"] == (8, 8)
    assert comparison["operations"][0] == comparison["operations"][1] == 4
    assert comparison["kernels"] == (1, 4)
    assert comparison["temporaries"] == (0, 3)
    assert comparison["temporary_bytes"] == (0, 3 * 3 * 2 * 4)
    assert comparison["bytes"] == (3 * 2 * 4, 4 * 3 * 2 * 4)
    assert comparison["measured_us"] == (None, None)


@pytest.mark.spec("P-9")
def test_plans_are_equal_only_if_both_made_the_same_decisions() -> None:
    """A decision in only one plan makes two plans of a graph different, even with equal kernels."""
    one = recorded(network())
    bare = without_decisions(one)
    assert one.decisions
    assert compare(one, one).equal
    assert compare(bare, bare).equal
    assert not compare(one, bare).equal
    assert not compare(bare, one).equal


@pytest.mark.spec("P-9", "V-12")
def test_kernels_are_equal_only_if_they_compute_the_same() -> None:
    """Equal numbers of kernels of the same nodes differ if one of them computes something else, or more."""
    one, other = recorded(network()), recorded(network(ex.exp))
    assert [kernels.same for kernels in compare(one, one).kernels] == [True]
    assert [kernels.same for kernels in compare(one, other).kernels] == [False]
    apart = recorded(network(), without=["fuse"])
    assert [(kernels.before, kernels.after, kernels.same) for kernels in compare(one, apart).kernels] == [
        ((0,), (0, 1, 2, 3), False)
    ]
    assert compare(one, apart).follows == ((3,), (0, 0, 0, 0))


@pytest.mark.spec("P-9")
@settings(max_examples=30)
@given(programs())
def test_a_comparison_is_symmetric(roots: list[ex.Expr]) -> None:
    """Swapping the sides exchanges what only one side has, and nothing is lost."""
    one, two = recorded(*roots), recorded(*roots, without=["simplify", "fuse"])
    comparison, back = compare(one, two), compare(two, one)
    assert comparison.decisions_before == back.decisions_after
    assert comparison.decisions_after == back.decisions_before
    assert comparison.follows == back.follows[::-1]
    assert comparison.counts == {name: pair[::-1] for name, pair in back.counts.items()}
    assert len(comparison.decisions) + len(comparison.decisions_before) == len(one.decisions)
    assert len(comparison.decisions) + len(comparison.decisions_after) == len(two.decisions)
    assert {(k.before, k.after, k.same) for k in comparison.kernels} == {
        (k.after, k.before, k.same) for k in back.kernels
    }
