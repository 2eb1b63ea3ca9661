"""Differences between two graphs: the marks of nodes, and their words."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.record import Recording
from explorer.reports import compare
from explorer.view.picture.difference_marks import differences, legend, marks_json, tally


def recorded(activation: ex.Operation, without: tuple[str, ...] = ()) -> Recording:
    """Return the plan of a product, an activation and a softmax."""
    x, weight = (ex.tensor(np.ones((4, 4), np.float32), name=name) for name in ("x", "w"))
    plan = ex.EvalPlan(without=list(without))
    plan.register(ex.softmax(activation(x @ weight)))
    return plan.prepare().recording


@pytest.mark.spec("V-3")
def test_different_kernels_are_marked_only_once_kernels_are_chosen() -> None:
    """Two plans of the same program have the same graph at the beginning, and different kernels at the end."""
    compared = compare(recorded(ex.tanh), recorded(ex.tanh, ("fuse",)))
    assert differences(compared, (0, 0)) == ({}, {})
    ends = differences(compared, (compared.before.end, compared.after.end))
    assert {kind for side in ends for kind in side.values()} == {"regrouped"}
    assert legend(ends[0].values()) == [f"≠ {len(ends[0])} in other kernels"]


@pytest.mark.spec("V-3")
def test_a_node_without_its_counterpart_is_removed_or_added() -> None:
    """A different operation is removed on one side and added on the other; its reader is rewired."""
    compared = compare(recorded(ex.tanh), recorded(ex.relu))
    before, after = differences(compared, (0, 0))
    assert sorted(before.values()) == ["removed", "rewired"]
    assert sorted(after.values()) == ["added", "rewired"]
    assert tally([*before.values(), *after.values()]) == "−1 +1 →2"


@pytest.mark.spec("V-3", "V-13")
def test_each_difference_has_a_sign_and_words() -> None:
    """Signs and words, for one node and for many, are distinct; colours only repeat them."""
    rows = marks_json(compare(recorded(ex.tanh), recorded(ex.relu)))["differences"]
    for column in ("kind", "sign", "word", "many", "meaning"):
        assert len({row[column] for row in rows}) == len(rows) == 5
        assert all(row[column] for row in rows)


@pytest.mark.spec("V-3", "V-12")
def test_a_node_is_changed_only_by_its_own_differences() -> None:
    """A different constant, attribute or type is a change of the node; a different operand is not."""

    def program(factor: float, axis: int, activation) -> Recording:
        x = ex.tensor(np.ones((3, 3), np.float32), name="x")
        plan = ex.EvalPlan(without=["simplify"])
        plan.register(ex.sum(ex.exp(activation(x)) * factor, axis=axis))
        return plan.prepare().recording

    def marked(*after) -> dict[str, str]:
        compared = compare(program(2.0, 0, ex.tanh), program(*after))
        nodes = compared.before.nodes
        names = compared.before.operations
        return {names[nodes.operation[node]]: kind for node, kind in differences(compared, (0, 0))[0].items()}

    assert marked(2.0, 0, ex.tanh) == {}
    assert marked(3.0, 0, ex.tanh) == {"multiply": "changed"}
    assert marked(2.0, 1, ex.tanh) == {"sum": "changed"}
    assert marked(2.0, 0, ex.sin) == {"tanh": "removed", "exp": "rewired"}
