"""Estimated and measured times: each names its machine, and small differences between runs are not reported."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import explorer as ex
from explorer.record import Recording
from explorer.record.compare.comparison import compare, counts_of
from explorer.record.reasons import micros_text
from explorer.view.compare.pair_payload import counted
from explorer.view.export.cost_report import costs, times
from explorer.view.export.pandas_tables import to_pandas
from explorer.view.model.heat import time_difference
from explorer.view.model.stage_texts import machine_text, stage_result
from tests.view import sample


@pytest.mark.spec("V-5")
def test_an_estimate_names_its_machine() -> None:
    """Results and costs distinguish estimates from the reference table from estimates measured on this machine."""
    recording = sample.mlp()
    last = len(recording.stages) - 1
    assert machine_text(recording) == "the reference machine"
    assert "estimated for the reference machine" in stage_result(recording, last)
    recording.options = {**recording.options, "costs": "measured"}
    assert "estimated for this machine" in stage_result(recording, last)
    assert costs(recording).splitlines()[0].endswith("; times are estimated for this machine")


@pytest.mark.spec("Q-2")
def test_the_slowest_kernels_are_listed_by_their_estimates() -> None:
    """`explain()` lists the slowest kernels with their share; it omits measured times, which differ between runs."""
    assert times(sample.mlp()).splitlines() == [
        "where the time is: 33.2 µs estimated for the reference machine, the slowest first",
        "     21 µs   63 %  kernel 1: matmul",
        "    9.1 µs   27 %  kernel 4: add → log-softmax → nll",
        "    1.9 µs    6 %  kernel 2: add → tanh",
        "    1.2 µs    4 %  kernel 3: multiply 2",
    ]
    x = ex.tensor([[1.0] * 8] * 8)
    plan = ex.EvalPlan()
    plan.register(x @ x)
    assert times(plan.prepare().recording) == ""
    assert "where the time is" not in plan.explain()


@pytest.mark.spec("Q-2")
def test_estimates_of_a_run_exclude_what_is_computed_once() -> None:
    """What depends only on a weight is in no sum over a run: not in texts, comparisons, or alternatives."""
    recording = sample.weighted(run=False)
    assert recording.schedule is not None
    (once,) = recording.once
    estimates = [kernel.estimate or 0 for kernel in recording.schedule.kernels]
    assert recording.estimate(once=True) == estimates[once] > 10
    assert recording.estimate() == pytest.approx(sum(estimates) - estimates[once])
    assert counts_of(recording)["estimated_us"] == pytest.approx(recording.estimate())
    share, text = micros_text(estimates[once]), times(recording)
    assert f"where the time is: {micros_text(recording.estimate() or 0)} estimated" in text
    assert f"{share}         once, before the first run: 1 kernel" in text
    assert f"kernel {once + 1}:" not in text
    order = next(number for number, stage in enumerate(recording.stages) if stage.kind == "order")
    assert f"estimated for each run, and {share} once, before the first run" in stage_result(recording, order)
    pytest.importorskip("pandas")
    assert to_pandas(recording).kernels["once"].tolist() == [index == once for index in range(len(estimates))]


@pytest.mark.spec("Q-2")
@pytest.mark.parametrize("warm", [False, True])
def test_a_run_is_compared_with_the_estimate_of_what_it_computed(warm: bool) -> None:
    """The first run includes what is computed once, and says how much of it later runs do not need."""
    recording = sample.weighted()
    assert recording.run is not None
    recording = replace(recording, run=replace(recording.run, warm=warm))
    (once,) = recording.once
    whole = (recording.estimate() or 0) + (0 if warm else recording.estimate(once=True) or 0)
    result = stage_result(recording, len(recording.stages) - 1)
    assert f"the {micros_text(whole)} estimated" in result
    assert ("of it will not be needed in later runs" in result) is not warm
    twice = slower(recording, 2.0)
    assert twice.run is not None
    steps = [replace(step, micros=step.micros + 1000 * (step.kernel == once)) for step in twice.run.steps]
    change = time_difference(recording, replace(twice, run=replace(twice.run, steps=tuple(steps))))
    assert sum(change.values()) == pytest.approx(1000 if warm else 0)


@pytest.mark.spec("V-5")
def test_a_decision_that_costs_nothing_has_no_time() -> None:
    recording = sample.mlp()
    recording.decisions = [
        replace(decision, facts={**decision.facts, "estimated_cost_us": 0.0}) for decision in recording.decisions
    ]
    assert recording.declined
    assert "0 µs" not in costs(recording)


@pytest.mark.spec("V-5")
def test_savings_of_a_change_are_marked_as_estimates() -> None:
    shared = ex.sin(ex.tensor([[1.0] * 64] * 64))
    plan = ex.EvalPlan()
    plan.register(ex.exp(shared) @ ex.cos(shared))
    declined = next(each for each in plan.prepare().recording.declined if each.code == "other_consumers")
    assert re.search(r": estimated \S+ [µm]s → \S+ [µm]s, peak ", str(plan.what_if(declined)))


def slower(recording: Recording, times: float) -> Recording:
    assert recording.run is not None
    return replace(recording, run=replace(recording.run, micros=recording.run.micros * times))


@pytest.mark.spec("V-5", "V-10")
@pytest.mark.parametrize(("times", "is_claimed"), [(1.05, False), (0.9, False), (1.2, False), (2.0, True), (0.3, True)])
def test_small_differences_of_two_runs_are_not_reported(times: float, is_claimed: bool) -> None:
    """Times of two runs that differ by less than a quarter are both shown, without a percentage."""
    before = sample.mlp()
    (row,) = [row for row in counted(compare(before, slower(before, times)), measured=True) if "measured" in row[0]]
    assert row[1] != row[2]
    assert ("%" in row[3] or "×" in row[3]) is is_claimed
    assert ("two runs" in row[3]) is not is_claimed
