"""A step updates all parameters or none, in place where that is proved to be safe."""

from __future__ import annotations

import signal
from typing import Any, ClassVar

import pytest

import explorer as ex
from explorer.train.module import TrainingStep
from tests.support.small_module import built, data

T = ex.train


def step_decisions(module: Any) -> dict[str, list[str]]:
    """Return the codes of a step's decisions about updates, with their subjects' labels."""
    x, label = data()
    recording = module.plan(x, label).recording
    texts: dict[str, list[str]] = {}
    for decision in recording.decisions:
        if recording.stages[decision.stage].name == "update":
            texts.setdefault(decision.code, []).extend(map(recording.label, decision.subjects))
    return texts


class Interrupted(BaseException):
    """An interrupt."""


def test_an_interrupt_leaves_a_complete_step() -> None:
    """Ctrl-C while new parameters are assigned is delayed until all of them are."""
    x, label = data()
    module, other = built(T.Momentum(0.1)), built(T.Momentum(0.1))
    memory = module.optimizer.memory
    commit = memory.commit

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        commit()

    memory.commit = interrupted
    with pytest.raises(KeyboardInterrupt):
        module.train_on(x, label)
    memory.commit = commit
    other.train_on(x, label)
    assert module.optimizer.iteration == 1
    assert module.train_on(x, label) == other.train_on(x, label)


@pytest.mark.spec("T-4")
def test_parameters_are_updated_in_place_where_that_is_proved_safe() -> None:
    """A step overwrites old parameters and state; the stage *update* lists which, and the reasons for others."""
    assert {code: len(subjects) for code, subjects in step_decisions(built(T.Adam(0.1))).items()} == {"in_place": 12}
    decisions = step_decisions(built(T.SGD(0.1)))
    assert (len(decisions["in_place"]), len(decisions["not_elementwise"])) == (2, 2)
    x, label = data()
    module = built(T.Adam(0.1))
    stages = {stage.name: stage.counts for stage in module.plan(x, label).recording.stages}
    apart = {stage.name: stage.counts for stage in module.plan(x, label, without=["update"]).recording.stages}
    assert "update" not in apart
    sizes = 3 * sum(held.array.nbytes for held in module.parameters.values())
    assert apart["buffers"]["peak"] - stages["buffers"]["peak"] == sizes
    module.train_on(x, label)
    assert not module.optimizer.spares


@pytest.mark.parametrize("executor", ["simple", "dag", "async"])
@pytest.mark.parametrize("make", [T.SGD, T.Momentum, T.Adam, T.Adagrad, T.RMSProp, T.Ftrl])
def test_updates_in_place_change_no_value(make: Any, executor: str) -> None:
    """Training gives the same bits with and without the pass."""
    x, label = data()

    class Beside(TrainingStep):  # type: ignore[misc]
        options: ClassVar = {"without": ("update",)}

    module, beside = built(make(0.1), executor=executor), built(make(0.1), executor=executor)
    beside.set_step(Beside)
    for _ in range(4):
        assert module.train_on(x, label) == beside.train_on(x, label)
    for name, held in module.parameters.items():
        assert held.array.tobytes() == beside.parameters[name].array.tobytes()
    assert {k: v.tobytes() for k, v in module.optimizer.state().items()} == {
        k: v.tobytes() for k, v in beside.optimizer.state().items()
    }
    assert len(beside.optimizer.spares) == 4 + len(beside.optimizer.state())


@pytest.mark.spec("T-4")
@pytest.mark.parametrize("make", [T.SGD, T.Adam])
def test_a_step_stopped_at_any_kernel_keeps_all_old_parameters(make: Any) -> None:
    """Whichever kernel fails or is interrupted, parameters and state are those before the step."""
    x, label = data()
    module, whole = built(make(0.1)), built(make(0.1))
    module.train_on(x, label)
    whole.train_on(x, label)
    (step,) = module._steps.values()
    program = step._compiled._program
    before = [held.array.copy() for held in module.parameters.values()]
    state = module.optimizer.state()
    runners = program.runners
    assert len(runners) > 5
    assert program._updates
    for at, (_, slot) in enumerate(runners):
        for error in (Interrupted, ZeroDivisionError):

            def stop(values: Any, error: Any = error) -> Any:
                raise error

            program.runners = [*runners[:at], (stop, slot), *runners[at + 1 :]]
            with pytest.raises((Interrupted, ex.RunError)):
                module.train_on(x, label)
            assert all((old == held.array).all() for old, held in zip(before, module.parameters.values(), strict=True))
            assert all((module.optimizer.state()[key] == array).all() for key, array in state.items())
            assert module.optimizer.iteration == 1
    program.runners = runners
    assert module.train_on(x, label) == whole.train_on(x, label)
    assert module.train_on(x, label) == whole.train_on(x, label)


def test_an_interrupt_during_updates_is_delayed_until_all_are_done() -> None:
    x, label = data()
    module, whole = built(T.Adam(0.1)), built(T.Adam(0.1))
    for each in (module, whole):
        each.train_on(x, label)
    (step,) = module._steps.values()
    program = step._compiled._program
    updates = program._updates
    for at, (runner, slot) in enumerate(updates):

        def interrupted(values: Any, runner: Any = runner) -> Any:
            signal.raise_signal(signal.SIGINT)
            return runner(values)

        program._updates = [*updates[:at], (interrupted, slot), *updates[at + 1 :]]
        with pytest.raises(KeyboardInterrupt):
            module.train_on(x, label)
        whole.train_on(x, label)
        assert module.optimizer.iteration == whole.optimizer.iteration
        for name, held in module.parameters.items():
            assert (held.array == whole.parameters[name].array).all()


def test_an_allocation_failure_during_updates_is_reported() -> None:
    x, label = data()
    module = built(T.Adam(0.1))
    module.train_on(x, label)
    (step,) = module._steps.values()

    def full(values: Any) -> Any:
        raise MemoryError("no more")

    program = step._compiled._program
    program._updates = [*program._updates[:2], (full, program._updates[2][1]), *program._updates[3:]]
    with pytest.raises(ex.RunError, match=r"update in place.*no more"):
        module.train_on(x, label)
