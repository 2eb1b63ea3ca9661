"""Overlays of custom numbers on the graph of one view, and of the difference between the times of two runs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import explorer as ex
from explorer.view.model.heat import overlay, time_difference


@pytest.fixture
def program():
    x = ex.tensor(np.ones((4, 4), np.float32), name="x")
    with ex.scope("head"):
        a = ex.tanh(x * 2)
    return a, ex.sum(ex.exp(-a))


def numbers(view, name: str) -> dict[str, float]:
    """Return a metric's nonzero numbers in the payload, keyed by label."""
    [row] = [row for row in view.payload["heat"] if row["name"] == name]
    return {view.recording.label(node): value for node, value in enumerate(row["values"]) if value}


@pytest.mark.spec("V-10", headline=True)
def test_numbers_are_laid_over_expressions_nodes_and_names(program) -> None:
    """Colour the graph with custom numbers for expressions, nodes or names: view.overlay({y: 0.25})."""
    a, y = program
    view = ex.explore(y)
    node = view.recording.nodes.label.index("exp")
    view.overlay({a: 3.0, node: -2.0}, name="error", unit="%")
    assert numbers(view, "error") == {"tanh": 3.0, "exp": -2.0}
    view.overlay({"head": 1.5}, name="error")
    assert numbers(view, "error") == {"tanh": 1.5}


def test_a_replacement_has_the_sum_of_the_replaced_nodes(program) -> None:
    x = ex.tensor(np.ones(4, np.float32), name="x")
    first, second = ex.exp(x), ex.exp(x)
    plan = ex.EvalPlan()
    plan.register(first + second)
    recording = plan.prepare().recording
    one, other = (node for node, label in enumerate(recording.nodes.label) if label == "exp")
    metric = overlay(recording, {one: 1.0, other: 2.0}, "mine", "", "")
    assert {node: metric.of(recording, node) for node in (one, other)} == {one: 1.0, other: 2.0}
    metric = overlay(recording, {other: 2.0}, "mine", "", "")
    kept = recording.resolver(recording.end).get(other, other)
    assert kept != other
    assert metric.of(recording, kept) == 2.0
    metric = overlay(recording, {other: 2.0, one: 3.0}, "mine", "", "", boxes="max")
    assert metric.of(recording, kept) == 3.0


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ({0: float("nan")}, "mine", "must be finite"),
        ({0: "much"}, "mine", "must be finite"),
        ({999: 1.0}, "mine", "node 999 is not in this recording"),
        ({"none": 1.0}, "mine", "none"),
        ({0: 1.0}, "time", "the name must not be the name of an existing metric"),
    ],
)
def test_invalid_overlays_are_rejected_and_change_nothing(program, values, name: str, message: str) -> None:
    view = ex.explore(program[1])
    before = view.payload
    with pytest.raises(ValueError, match=message):
        view.overlay(values, name=name)
    assert view.payload == before


@pytest.mark.spec("V-10")
def test_times_of_two_runs_are_compared_for_equal_nodes(program) -> None:
    """`view.overlay_times(other)` shows how much longer each kernel took than in the other plan."""
    plans = []
    for options in ({"without": ["fuse"]}, {}):
        plan = ex.EvalPlan(**options)
        plan.register(program[1])
        plans.append(plan.eval())
    before, after = (plan.recording for plan in plans)
    differences = time_difference(before, after)
    results = {kernel.nodes[-1] for kernel in after.schedule.kernels}
    assert set(differences) <= results
    spent = [sum(step.micros for step in recording.run.steps) for recording in (before, after)]
    assert sum(differences.values()) == pytest.approx(spent[1] - spent[0])
    view = plans[1].explore()
    view.overlay_times(plans[0])
    [row] = [row for row in view.payload["heat"] if row["name"] == "Δ time"]
    assert row["unit"] == "µs"
    planned = ex.EvalPlan()
    planned.register(program[1])
    with pytest.raises(ValueError, match="has not run"):
        view.overlay_times(planned.prepare())


def test_a_saved_page_has_the_overlays(program, tmp_path) -> None:
    view = ex.explore(program[1])
    view.overlay({program[0]: -1.0}, name="mine")
    view.save(tmp_path / "page.html")
    data = re.search(r'id="explorer-data">(.*?)</script>', (tmp_path / "page.html").read_text(), re.DOTALL)
    assert "mine" in [row["name"] for row in json.loads(data[1])["heat"]]
