"""Mapping of steps between two views, to the same decision or to the kernel of the same nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import explorer as ex
from explorer.record.compare.comparison import Comparison, compare
from explorer.view.compare.pair_payload import Count, counted
from explorer.view.compare.step_mapping import StageSteps, partners
from explorer.view.replay.steps import stage_ends
from tests.support.programs import programs


def planned(roots: Any, *, run: bool = False, **options: Any) -> ex.EvalPlan:
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    plan.prepare()
    return plan.eval() if run else plan


def network() -> list[ex.Expr]:
    x = ex.tensor(np.ones((3, 4), np.float32), name="x")
    w = ex.tensor(np.ones((4, 4), np.float32), name="w")
    return [ex.log(ex.softmax(ex.tanh(x @ w + 1.0))), ex.sqrt(ex.square(x) + 1.0) @ w]


def described(comparison: Comparison, side: int, step: int) -> tuple[str, str]:
    """Return the stage of a step, and the sentence of its decision or the labels of its kernel."""
    recording = (comparison.before, comparison.after)[side]
    stages = StageSteps(recording)
    stage = next(number for number, end in enumerate(stages.ends) if step <= end)
    row = recording.stages[stage]
    index = step - stages.starts[stage] - 1
    if 0 <= index < row.last - row.first:
        return row.name, recording.reason(recording.decisions[row.first + index])
    kernels = stages.kernels[stage]
    if not kernels:
        return row.name, ""
    assert recording.schedule is not None
    kernel = recording.schedule.kernels[kernels[index - (row.last - row.first)]]
    return row.name, " ".join(recording.label(node) for node in kernel.nodes)


@pytest.mark.spec("V-3")
@pytest.mark.parametrize("run", [False, True], ids=["planned", "run"])
def test_steps_of_equal_plans_map_to_each_other(run: bool) -> None:
    """Steps of equal plans map to the same steps in every mode, before and after their runs."""
    plans = [planned(network(), run=run) for _ in range(2)]
    comparison = partners(plans[0].compare(plans[1]))
    for before, after in comparison.values():
        assert before == after == list(range(stage_ends(plans[0].recording)[-1] + 1))


@pytest.mark.spec("V-3")
def test_a_decision_maps_to_the_same_decision() -> None:
    """A decision of both plans maps to itself, however many decisions of one plan are in between."""
    roots = network()
    comparison = compare(planned(roots).recording, planned(roots, without=["dedup", "fuse"]).recording)
    steps = partners(comparison)["nodes"]
    both = 0
    for side in (0, 1):
        for step, other in enumerate(steps[side]):
            stage, sentence = described(comparison, side, step)
            if stage in ("order", "buffers"):
                continue
            if (stage, sentence) in [
                described(comparison, 1 - side, each) for each in range(len(steps[1 - side]))
            ] and sentence:
                last = step in StageSteps((comparison.before, comparison.after)[side]).ends
                assert described(comparison, 1 - side, other) == (stage, sentence) or last
                both += 1
    assert both >= 4


@pytest.mark.spec("V-3")
@settings(max_examples=30, deadline=None)
@given(programs())
def test_every_step_has_its_partner_in_the_other_plan(roots: list[ex.Expr]) -> None:
    """Whichever passes one plan omits, each step maps to a step of the other plan, and ends of stages to ends."""
    comparison = compare(planned(roots).recording, planned(roots, without=["simplify", "batch", "fuse"]).recording)
    ends = stage_ends(comparison.before)[-1], stage_ends(comparison.after)[-1]
    for way, sides in partners(comparison).items():
        for side in (0, 1):
            assert len(sides[side]) == ends[side] + 1
            own, others = (
                StageSteps((comparison.before, comparison.after)[side]),
                StageSteps((comparison.after, comparison.before)[side]),
            )
            last = next(number for number, end in enumerate(own.ends) if end == ends[side])
            other = others.number.get(own.keys[last], -1)
            if way == "nodes":
                assert sides[side][-1] == (others.ends[other] if other >= 0 and ends[side] else ends[1 - side])
            assert all(0 <= step <= ends[1 - side] for step in sides[side])


@pytest.mark.spec("V-3")
@pytest.mark.parametrize("way", ["nodes", "steps"])
def test_a_plan_without_any_step_is_at_its_end(way: str) -> None:
    """The plan of a single leaf has no decisions and kernels; its only step maps to the end of every other plan."""
    alone = planned([ex.tensor(np.ones(3), name="x")]).recording
    other = planned(network()).recording
    end = stage_ends(other)[-1]
    assert stage_ends(alone)[-1] == 0 < end
    assert partners(compare(alone, other))[way] == ([end], [0] * (end + 1))


@pytest.mark.spec("V-3")
def test_counts_have_units_and_differences() -> None:
    """Bytes, flops and times have units; a difference has a sign and a percentage, or a factor if it is large."""
    roots = network()
    comparison = compare(planned(roots).recording, planned(roots).recording)
    comparison.counts.update(
        kernels=(3, 6),
        flops=(2_000_000, 1_000_000),
        bytes=(1024, 2 * 1024 * 1024),
        peak_bytes=(0, 2048),
        temporaries=(7, 7),
        estimated_us=(1000.0, 1000.1),
        measured_us=(None, 2500.0),
    )
    rows = {row.name: row for row in counted(comparison, measured=True)}
    assert rows["kernels"] == Count("kernels", "3", "6", "+3 (+100 %)")
    assert rows["flops"] == Count("flops", "2 M", "1 M", "−1 M (−50 %)")
    assert rows["bytes written"] == Count("bytes written", "1 KB", "2 MB", "+2 MB (×2,048)")
    assert rows["peak memory"] == Count("peak memory", "0 B", "2 KB", "+2 KB")
    assert rows["temporaries"].difference == ""
    assert rows["estimated time"] == Count("estimated time", "1 ms", "1 ms", "+0.1 µs")
    assert rows["measured time"] == Count("measured time", "–", "2.5 ms", "")
    assert "measured time" not in [row.name for row in counted(comparison, measured=False)]
