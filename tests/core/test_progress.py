"""Progress reports of long work, and cancellation at any moment without harm."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import explorer as ex
from explorer.core.progress import Display, ProgressCallback, current_callback, delayed, displayed_by
from explorer.net import Net

MODEL = Path(__file__).parents[2] / "assets" / "digits.pnnx.param"
images = np.load(MODEL.with_name("digits.npz"))["images"]
probability = np.load(MODEL.with_name("digits.npz"))["probability"]


def reports(net: Net | None = None) -> list[ex.Progress]:
    """Return all progress reports of opening and running a net."""
    results: list[ex.Progress] = []
    with ex.progress(results.append):
        (net or ex.open(MODEL)).run(images)
    return results


@pytest.mark.spec("V-20")
def test_reading_building_planning_and_running_report_progress() -> None:
    """Each line read, operator built, pass and kernel is reported, with the total count."""
    net = ex.open(MODEL)
    result = reports()
    phases = [step.phase for step in result]
    assert list(dict.fromkeys(phases)) == ["reading", "building", "planning", "running"]
    for phase, count in (("building", len(net.operators)), ("running", phases.count("running"))):
        steps = [step for step in result if step.phase == phase]
        assert [step.done for step in steps] == list(range(count))
        assert {step.total for step in steps} == {count}
    assert {step.what for step in result if step.phase == "building"} == set(net.operators)
    assert any(step.what.startswith("fuse (") for step in result if step.phase == "planning")
    assert current_callback() is None


@pytest.mark.spec("V-20", "P-11")
def test_work_cancelled_at_any_moment_can_be_repeated() -> None:
    """The net or plan still gives correct values afterwards."""
    count = len(reports())
    for at in range(count):
        net, steps = None, iter(range(count))

        def report(step: ex.Progress, at: int = at, steps: Iterator[int] = steps) -> None:
            if next(steps) == at:
                raise ex.Cancelled(step.phase)

        with contextlib.suppress(ex.Cancelled), ex.progress(report):
            net = ex.open(MODEL)
            net.run(images)
            pytest.fail("it was not cancelled")
        np.testing.assert_allclose((net or ex.open(MODEL)).run(images), probability, atol=1e-5)


@pytest.mark.spec("V-20", "P-11")
def test_a_cancelled_plan_can_be_used_again() -> None:
    """A plan cancelled during planning keeps its registrations; one cancelled during a run accepts new ones."""
    x = ex.tensor(np.arange(6.0))
    y = ex.exp(x @ ex.tensor(np.ones((6, 6)))).sum()

    def cancel(phase: str) -> ProgressCallback:
        def report(step: ex.Progress) -> None:
            if step.phase == phase:
                raise ex.Cancelled

        return report

    plan = ex.EvalPlan()
    first = plan.register(y)
    with pytest.raises(ex.Cancelled), ex.progress(cancel("planning")):
        plan.prepare()
    assert plan.prepare().eval() is plan
    second = plan.register(y)
    with pytest.raises(ex.Cancelled), ex.progress(cancel("running")):
        plan.eval()
    with pytest.raises(ex.StateError, match="ended with Cancelled"):
        second.data()
    third = plan.register(y)
    plan.eval()
    assert third.data() == first.data()


def test_a_cancellation_is_a_keyboard_interrupt() -> None:
    assert issubclass(ex.Cancelled, KeyboardInterrupt)


def test_a_progress_bar_appears_only_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It appears after a second, changes at most ten times a second, and disappears at the end."""
    clock = [0.0]
    monkeypatch.setattr("explorer.core.progress.monotonic", lambda: clock[0])
    happened: list[str] = []

    @contextmanager
    def bar() -> Iterator[ProgressCallback]:
        happened.append("shown")
        yield lambda step: happened.append(step.what)
        happened.append("gone")

    with delayed(bar) as report:
        for number in range(8):
            report(ex.Progress("running", str(number)))
            clock[0] += 0.1
    assert happened == []
    with delayed(bar) as report:
        for number in range(24):
            clock[0] += 0.06
            report(ex.Progress("running", str(number)))
    assert happened == ["shown", "16", "18", "20", "22", "gone"]


def test_a_display_context_shows_work_without_a_callback() -> None:
    """The display is called once for each piece of work inside the context; a callback or an inner display replaces
    it."""
    shown: list[tuple[str, str]] = []

    def display(name: str) -> Display:
        @contextmanager
        def bar() -> Iterator[ProgressCallback]:
            yield lambda step: shown.append((name, step.phase))

        return bar

    net = ex.open(MODEL)
    with displayed_by(display("outer")):
        with displayed_by(display("inner")):
            net.run(images)
        assert {name for name, _ in shown} == {"inner"}
        ex.open(MODEL)
        assert {name for name, _ in shown} == {"inner", "outer"}
        before = len(shown)
        assert reports()
        assert len(shown) == before
    ex.open(MODEL)
    assert len(shown) == before


@pytest.mark.spec("V-20")
def test_writing_and_other_runtimes_report_progress(tmp_path: Path) -> None:
    """Each operator written is reported, and each call of another runtime before it begins."""
    net, states = ex.open(MODEL), list[ex.Progress]()
    with ex.progress(states.append):
        net.save(tmp_path / "a.pnnx.param")
        net.compare("onnx.reference", images)
    written = [state for state in states if state.phase == "writing"]
    assert [state.what for state in written][: len(net.operators)] == [*net.operators]
    assert {state.total for state in written[: len(net.operators)]} == {len(net.operators)}
    runs = [state.what for state in states if state.what.endswith(" with onnx.reference")]
    assert runs == ["opening the file with onnx.reference", "all values with onnx.reference"]


@pytest.mark.spec("V-20")
@pytest.mark.parametrize("executor", ["simple", "dag", "async"])
@pytest.mark.parametrize("phase", ["reading", "building", "planning", "running"])
def test_an_exception_of_a_callback_is_passed_through(phase: str, executor: str) -> None:
    """In every phase, it is raised unchanged, and the work can be repeated."""

    def report(state: ex.Progress) -> None:
        if state.phase == phase:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught, ex.progress(report):
        ex.open(MODEL).plan(images, executor=executor).eval()
    assert type(caught.value) is KeyError
    np.testing.assert_allclose(ex.open(MODEL).run(images), probability, rtol=1e-4, atol=1e-5)


@pytest.mark.spec("V-20")
def test_a_notebook_shows_a_cancellation_as_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback would show no faulty line of the user and irrelevant library code."""
    shell = InteractiveShell()
    for sentence in ("cancelled while running tanh", ""):
        shell.user_ns["stopped"] = ex.Cancelled(*filter(None, [sentence]))
        result = shell.run_cell("raise stopped")
        assert isinstance(result.error_in_exec, ex.Cancelled)
        shown = capsys.readouterr()
        assert shown.out.strip() == (f"Cancelled: {sentence}" if sentence else "Cancelled")
        assert shown.err == ""
