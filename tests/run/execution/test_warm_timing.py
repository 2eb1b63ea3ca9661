"""Which run is measured, and how often a program runs for it."""

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.execution import warm_timing
from explorer.run.execution.program import Program
from explorer.run.plan_cache import cache
from explorer.run.runtime.timing import Timing
from explorer.view.model.stage_texts import stage_result


class TimesComputed(ex.Elementwise):
    """x + 1, counted."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(2)),)
    count = 0

    def kernel(self, out: Any, x: Any) -> Any:
        type(self).count += 1
        return np.add(x, 1, out=out)


class WithEffect(TimesComputed):
    """x + 1, with an effect."""

    pure = False


def evaluated(operation: type[TimesComputed], **options: Any) -> tuple[ex.EvalPlan, Any]:
    operation.count = 0
    cache.clear()
    plan = ex.EvalPlan(**options)
    handle = plan.register(operation()(ex.tensor(np.ones(4))))
    plan.eval()
    return plan, handle


@pytest.mark.spec("P-17")
def test_values_are_gathered_in_one_run_and_times_in_another() -> None:
    plan, handle = evaluated(TimesComputed, record="values")
    run = plan.recording.run
    assert (TimesComputed.count, run.warm, run.watched, len(run.values)) == (1 + warm_timing.MAX_RUNS, True, False, 2)
    np.testing.assert_array_equal(handle.data(), 2 * np.ones(4))


@pytest.mark.spec("P-17")
def test_a_plan_without_a_view_runs_once() -> None:
    plan, _ = evaluated(TimesComputed)
    assert (TimesComputed.count, plan.recording.run.warm) == (1, False)


@pytest.mark.spec("P-17")
def test_a_view_shows_a_warm_run() -> None:
    plan, handle = evaluated(TimesComputed)
    view = plan.explore()
    assert view.recording.run.warm
    assert TimesComputed.count == 2 + warm_timing.MAX_RUNS  # its own program, run once to warm it up
    np.testing.assert_array_equal(handle.data(), 2 * np.ones(4))
    count = TimesComputed.count
    plan.explore()
    assert TimesComputed.count == count


@pytest.mark.spec("P-17")
def test_the_fastest_of_short_runs_is_recorded_completely() -> None:
    """A run delayed by another process is not shown; runs of more than 20 ms are not repeated."""
    durations = [900, 70, 40, 60, 50]
    runs: list[int] = []

    def run(program: Any, watch: Any) -> Timing:
        runs.append(durations[len(runs)])
        return Timing([1], [1 + runs[-1]], [])

    def timed(first: int) -> Timing:
        runs.clear()
        durations[0] = first
        return warm_timing.warm_timing(plan.planned, Program(plan.planned), run, {}, Timing([0], [5000], []))

    plan = ex.EvalPlan()
    plan.register(TimesComputed()(ex.tensor(np.ones(4))))
    plan.prepare()
    assert (timed(900).ended, runs) == ([41], [900, 70, 40, 60, 50])
    assert (timed(30_000_000).nanoseconds, len(runs)) == (30_000_000, 1)


@pytest.mark.spec("P-17")
def test_an_open_view_shows_a_warm_run_of_later_values() -> None:
    plan = ex.EvalPlan()
    plan.register(TimesComputed()(ex.tensor(np.ones(4))))
    view = plan.explore()
    plan.eval()
    assert view.recording.run.warm


@pytest.mark.spec("P-17")
@pytest.mark.parametrize("record", ["times", "values"])
def test_an_operation_with_a_side_effect_runs_once(record: str) -> None:
    plan, _ = evaluated(WithEffect, record=record)
    run = plan.explore().recording.run
    assert (WithEffect.count, run.warm, run.watched) == (1, False, record == "values")


@pytest.mark.spec("P-17")
def test_a_slow_program_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_timing, "_MAX_REPEATED", 0)
    plan, _ = evaluated(TimesComputed, record="values")
    assert (TimesComputed.count, plan.recording.run.warm) == (1, False)


@pytest.mark.spec("P-17")
def test_a_cached_program_is_warm() -> None:
    evaluated(TimesComputed)
    plan = ex.EvalPlan()
    plan.register(TimesComputed()(ex.tensor(np.ones(4))))
    assert plan.eval().explore().recording.run.warm
    assert plan.reused
    assert TimesComputed.count == 2


@pytest.mark.spec("P-17")
def test_an_interrupt_of_the_second_run_loses_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("explorer.run.evalplan.warm_timing", interrupted)
    plan = ex.EvalPlan(record="values")
    handle = plan.register(ex.tensor([1.0]) + 1)
    with pytest.raises(KeyboardInterrupt):
        plan.eval()
    assert handle.data() == [2.0]


@pytest.mark.spec("P-17")
def test_the_result_of_the_run_contains_the_kind_of_run() -> None:
    plan, _ = evaluated(TimesComputed, record="values")
    said = stage_result(plan.recording, len(plan.recording.stages) - 1)
    assert "in a warm run" in said
    assert "in a run before it" in said
    plan, _ = evaluated(WithEffect, record="values")
    said = stage_result(plan.recording, len(plan.recording.stages) - 1)
    assert "in a first run" in said
    assert "between its kernels" in said
