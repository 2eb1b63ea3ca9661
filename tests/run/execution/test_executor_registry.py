"""User-defined executors: functions that must follow the program's contract, with errors if they do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import explorer as ex
from explorer.plan import Options, plan
from explorer.plan.passes import Order
from explorer.run.execution.executors import EXECUTORS, run_simple
from explorer.run.execution.program import Program
from tests.support.programs import programs
from tests.support.refusals import refused

ASSETS = Path(__file__).parents[3] / "assets"


def run_last_ready_first(program: Any, observer: Any) -> Any:
    """Run the last of the chains that are ready."""
    timing, tasks = program.blank_timing(), program.chains.tasks
    needs = list(tasks.needs)
    ready = [chain for chain, count in enumerate(needs) if not count]
    while ready:
        chain = ready.pop()
        assert program.run_at(chain, timing, observer)
        for user in tasks.users[chain]:
            needs[user] -= 1
            if not needs[user]:
                ready.append(user)
    return timing


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    held = dict(EXECUTORS)
    yield
    EXECUTORS.clear()
    EXECUTORS.update(held)


class Break(ex.Elementwise):
    """x; raises the exception in ``BROKEN``."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        if BROKEN:
            raise BROKEN[0]
        np.copyto(out, x)
        return out


BROKEN: list[BaseException] = []


@pytest.mark.spec("P-11")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # random programs take logarithms of negative numbers
@given(programs())
def test_any_order_of_the_chains_gives_the_same_bits(roots: Any) -> None:
    """An executor of a user that runs what is ready in reverse, in memory planned for one order, changes no bit."""
    simple, reverse = (Program(plan(roots, Options(lanes=lanes))) for lanes in (1, 2))
    run_simple(simple)
    expected = simple.take()
    for _ in range(2):
        run_last_ready_first(reverse, None)
        for value, other in zip(reverse.take(), expected, strict=True):
            np.testing.assert_array_equal(value, other)


@pytest.mark.spec("P-11", "C-10")
def test_a_registered_executor_runs_plans_and_nets_and_is_named_in_recordings() -> None:
    ex.register_executor("reverse", run_last_ready_first, lanes=3)
    assert ex.executors()["reverse"] == "Run the last of the chains that are ready."
    x = ex.tensor(np.arange(6.0))
    plan = ex.EvalPlan(executor="reverse", record="values", without=("fuse", "batch"))
    handles = [plan.register(ex.tanh(x) + 1.0), plan.register(ex.exp(x) / np.zeros(6))]
    plan.eval()
    np.testing.assert_array_equal(handles[0].data(), np.tanh(np.arange(6.0)) + 1.0)
    assert np.isinf(handles[1].data()).all()  # a floating point event gives a value
    run = plan.recording.run
    assert run is not None
    assert run.executor == "reverse"
    assert sorted(step.kernel for step in run.steps) == list(range(len(plan.planned.schedule.kernels)))
    assert [step.kernel for step in run.steps] != sorted(step.kernel for step in run.steps)
    assert plan.options.find(Order).lanes == 3
    net = ex.open(ASSETS / "digits.pnnx.param")
    image = np.load(ASSETS / "digits.npz")["images"][:1]
    np.testing.assert_array_equal(net.run(image, executor="reverse"), net.run(image))
    with refused(ex.UnknownNameError, "reverse", "simple", "dag"):
        net.run(image, executor="revers")


@pytest.mark.spec("P-11")
@pytest.mark.parametrize("error", [ValueError("now"), KeyboardInterrupt("now")])
def test_a_failure_or_an_interrupt_leaves_no_value_and_a_reusable_program(error: BaseException) -> None:
    ex.register_executor("reverse", run_last_ready_first)
    root = Break()(ex.tensor(np.ones(3)))
    value = ex.EvalPlan(executor="reverse")
    value.register(root)
    BROKEN.append(error)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ex.RunError, match="now"):
        value.eval()
    BROKEN.clear()
    program = Program(plan([root], Options()))
    BROKEN.append(error)
    with pytest.raises((KeyboardInterrupt, ex.RunError)):
        EXECUTORS["reverse"].run(program, None)
    BROKEN.clear()
    assert all(program.values[slot] is None for slot in program.temporary)
    EXECUTORS["reverse"].run(program, None)
    np.testing.assert_array_equal(program.take()[0], np.ones(3))


def test_the_error_of_a_broken_contract_names_the_executor() -> None:
    def incomplete(program: Any, observer: Any) -> Any:
        timing = program.blank_timing()
        program.run_kernel(0, timing, observer)
        return timing

    expected = {"nothing": "NoneType", "short": "0 kernels", "incomplete": "the first is kernel 1"}
    ex.register_executor("nothing", lambda program, observer: None)  # type: ignore[arg-type, return-value]
    ex.register_executor("short", lambda program, observer: run_simple(program)._replace(began=[], ended=[]))
    ex.register_executor("incomplete", incomplete)
    for name, text in expected.items():
        plan = ex.EvalPlan(executor=name, without=("fuse",))
        plan.register(ex.tanh(ex.tensor(np.ones(3)) * 2.0))
        with refused(ex.StateError, name, text):
            plan.eval()


def test_an_existing_name_is_replaced_only_explicitly() -> None:
    with refused(ex.DeclarationError, "simple", "replace=True"):
        ex.register_executor("simple", run_last_ready_first)
    ex.register_executor("simple", run_last_ready_first, replace=True)
    assert ex.evaluate(ex.tensor(2.0) * 3.0) == 6.0
    for wrong in ({"name": ""}, {"run": None}):
        with refused(ex.DeclarationError):
            ex.register_executor(**{"name": "n", "run": run_simple, **wrong})  # type: ignore[arg-type]
    for lanes in (0, True, 1.5):
        with refused(ex.OperandError, "lanes"):
            ex.register_executor("n", run_simple, lanes=lanes)  # type: ignore[arg-type]
    assert "n" not in EXECUTORS
