"""Provenance of nodes in functions and of equal lines: inner nodes belong to their call, and lines to their cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.record import Recording, Source


@ex.function
def cell(x: Any) -> Any:
    return ex.tanh(ex.exp(x) @ ex.sin(x))


def recorded(*roots: Any, **options: Any) -> Recording:
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare().recording


@pytest.mark.spec("P-16")
def test_a_node_in_a_function_belongs_to_its_own_call() -> None:
    """If calls of one function are opened together, a kernel inside one is not part of the other."""
    first, second = (ex.tensor(np.full((3, 3), value), name=name) for name, value in (("a", 0.5), ("b", 0.25)))
    recording = recorded(cell(first), cell(second), without=["batch"])
    assert recording.schedule is not None
    rows, result = recording.nodes, recording.provenance
    calls = {rows.label[rows.operands[node][0]]: node for node in range(len(rows)) if rows.kind[node] == "call"}
    assert sorted(calls) == ["a", "b"]
    opened = [group for group in recording.groups if group.kind == "function"]
    assert opened
    assert all(len(group.members) > 1 for group in opened)
    for name, call in calls.items():
        own = {number for number, origin in enumerate(result.kernels) if call in origin.nodes}
        assert own == set(result.nodes[call].kernels)
        leaves = {rows.label[o] for n in own for k in recording.schedule.kernels[n].nodes for o in rows.operands[k]}
        assert leaves & {"a", "b"} == {name}
    assert len(result.nodes[calls["a"]].kernels) == len(result.nodes[calls["b"]].kernels)


@pytest.mark.spec("P-16")
def test_an_absorbed_node_is_computed_by_the_kernel_of_its_reader() -> None:
    """Its line is included, too."""
    inner = ex.softmax(ex.tensor(np.ones((3, 4), np.float32), name="x"))
    recording = recorded(ex.log(inner))
    result = recording.provenance
    absorbed = recording.nodes.label.index("softmax")
    assert result.nodes[absorbed].fate == "absorbed"
    (kernel,) = result.nodes[absorbed].kernels
    assert absorbed in result.kernels[kernel].nodes
    assert recording.nodes.source[absorbed] in result.kernels[kernel].sources


@pytest.mark.spec("P-16")
def test_a_line_belongs_to_one_cell() -> None:
    """Equal line numbers and equal code in two cells are distinguished by the cell."""
    recording = recorded(ex.exp(ex.sin(ex.tensor(np.ones((3, 3)), name="x")) @ np.ones((3, 3))), without=["fuse"])
    labels = [recording.label(kernel.nodes[-1]) for kernel in recording.schedule.kernels]  # type: ignore[union-attr]
    recording.sources = [Source("In[1]", 2, "y = f(x)"), Source("In[2]", 2, "y = f(x)")]
    recording.nodes.source = [1 if label == "exp" else 0 for label in recording.nodes.label]
    result = recording.provenance
    assert result.at(2) == result.at("f(x)") == tuple(range(len(labels)))
    assert result.at(2, "In[2]") == result.at("f(x)", "In[2]") == (labels.index("exp"),)
    assert result.at(2, "In[1]") == tuple(number for number, label in enumerate(labels) if label != "exp")
    assert result.at(2, "In[3]") == result.at(3) == ()
