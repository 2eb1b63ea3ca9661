"""EvalPlan: register, prepare, evaluate, read; user errors, and the state after failures."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.core.ir.function import Parameter
from explorer.plan.passes import Inline, Order
from explorer.run.plan_cache import cache
from tests.support.refusals import refused


class Broken(ex.Elementwise):
    """x, unless it contains a negative number."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3, low=0.0)),)

    def kernel(self, out: Any, x: Any) -> Any:
        if (x < 0).any():
            raise ValueError("a negative number")
        if (x > 1e6).any():
            raise KeyboardInterrupt
        np.copyto(out, x)
        return out


broken = Broken()
a = ex.tensor(np.arange(6.0).reshape(2, 3), name="a")


@pytest.mark.spec("M-E1", headline=True)
def test_three_ways_to_evaluate_give_the_same_value() -> None:
    """Evaluate at once, with a plan's handle, or after registration in the default plan; all give the same value."""
    y = ex.tanh(a) @ ex.transpose(a)
    expected = np.tanh(a.array) @ a.array.T
    assert np.array_equal(ex.evaluate(y), expected)
    plan = ex.EvalPlan()
    handle = plan.register(y)
    assert plan.eval() is plan
    assert np.array_equal(handle.data(), expected)
    waiting = y.eval_register()
    ex.default_plan().eval()
    assert np.array_equal(waiting.data(), expected)


@pytest.mark.spec("M-E1")
def test_reading_a_handle_before_eval_raises_an_error() -> None:
    plan = ex.EvalPlan()
    handle = plan.register(a + 1.0)
    assert "waiting" in repr(handle)
    with pytest.raises(ex.StateError, match=r"plan\.eval\(\)"):
        handle.data()
    plan.prepare()
    with pytest.raises(ex.StateError, match="before its evaluation"):
        handle.data()
    plan.eval()
    assert "evaluated" in repr(handle)


@pytest.mark.spec("M-E1")
def test_eval_clears_the_registrations_and_a_second_call_does_nothing() -> None:
    plan = ex.EvalPlan()
    first = plan.register(a + 1.0)
    plan.eval()
    value = first.data()
    plan.eval()
    assert first.data() is value
    second = plan.register(a + 2.0)
    plan.eval()
    assert np.array_equal(first.data(), a.array + 1)
    assert np.array_equal(second.data(), a.array + 2)


@pytest.mark.spec("M-E1")
def test_an_empty_plan_evaluates_to_nothing_and_cannot_be_prepared() -> None:
    plan = ex.EvalPlan()
    assert plan.eval() is plan
    with pytest.raises(ex.StateError, match="nothing registered"):
        plan.prepare()
    with pytest.raises(ex.StateError, match="not built yet"):
        plan.recording  # noqa: B018
    with pytest.raises(ex.OperandError, match=r"ex\.tensor"):
        plan.register(np.ones(3))  # type: ignore[arg-type]


@pytest.mark.spec("P-11", "M-E1")
def test_a_failing_kernel_is_named_with_types_and_line_and_the_plan_stays_usable() -> None:
    plan = ex.EvalPlan()
    other = plan.register(a + 1.0)
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    handle = plan.register(broken(a - 3.0).sum())
    with pytest.raises(ex.RunError) as caught:
        plan.eval()
    message = str(caught.value)
    for part in ("broken of (2×3 float64)", f"test_evalplan.py line {line}", "broken(a - 3.0)", "a negative number"):
        assert part in message
    assert isinstance(caught.value.__cause__, ValueError)
    for each in (handle, other):
        with pytest.raises(ex.StateError):
            each.data()
    again = plan.register(broken(a))
    plan.eval()
    assert np.array_equal(again.data(), a.array)


@pytest.mark.spec("P-11", "M-E1")
def test_the_error_of_a_failing_kernel_contains_rule_and_fix_once() -> None:
    """Operation and user's line precede the kernel's own rule and fix."""

    class Picky(ex.Elementwise):
        """x, unless it contains a negative number."""

        name = "picky"
        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(3, low=0.0)),)

        def kernel(self, out: Any, x: Any) -> Any:
            raise ex.OperandError("a negative number", rule="numbers are positive", fix="take abs(x)")

    try:
        with pytest.raises(ex.RunError) as caught:
            ex.evaluate(Picky()(a))
    finally:
        del registry.operations["picky"]
    lines = str(caught.value).split("\n")
    assert lines[0].startswith("picky of (2×3 float64) recorded at ")
    assert lines[0].endswith("OperandError: a negative number")
    assert lines[1:] == ["  rule: numbers are positive", "  fix: take abs(x)"]


@pytest.mark.spec("P-11")
def test_the_failing_operation_is_named_in_a_fused_kernel_and_an_unopened_call() -> None:
    chain = ex.tanh(ex.exp(broken(ex.sin(a - 3.0))) * 2.0)
    with pytest.raises(ex.RunError, match=r"^broken of \(2×3 float64\) \(in the kernel subtract · sin · broken · exp"):
        ex.evaluate(chain, without=["simplify"])
    inside = ex.function(lambda x: ex.tanh(broken(x)).sum())
    with pytest.raises(ex.RunError, match=r"^broken of \(2×3 float64\)") as caught:
        ex.evaluate(inside(a - 3.0) + 1.0, inline=Inline(0))
    assert isinstance(caught.value.__cause__, ValueError)
    assert ex.evaluate(inside(a), inline=Inline(0)) == np.tanh(a.array).sum()


@pytest.mark.spec("P-11")
@pytest.mark.parametrize("limit", [0, 1000])
def test_a_plan_is_usable_after_an_interrupt(limit: int) -> None:
    stop = ex.function(lambda x: ex.tanh(broken(x) * 2.0))
    plan = ex.EvalPlan(inline=Inline(limit))
    handle = plan.register(stop(a * 1e7))
    with pytest.raises(KeyboardInterrupt):
        plan.eval()
    with pytest.raises(ex.StateError):
        handle.data()
    handle = plan.register(stop(a))
    plan.eval()
    assert np.array_equal(handle.data(), np.tanh(a.array * 2))


def test_a_failed_planning_clears_the_registrations_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ex.EvalPlan()
    plan.register(a + 1.0)
    with monkeypatch.context() as patch:
        cache.clear()
        patch.setattr("explorer.run.evalplan.plan", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            plan.eval()
    assert plan.eval() is plan
    handle = plan.register(a + 1.0)
    plan.eval()
    assert np.array_equal(handle.data(), a.array + 1)


def test_evaluate_accepts_nested_containers_and_keeps_other_values() -> None:
    y = a * 2.0
    result = ex.evaluate({"y": y, "more": [y, (a, 3, "text")], "none": None})
    assert result["more"][1][1:] == (3, "text")
    assert result["none"] is None
    for value in (result["y"], result["more"][0]):
        assert np.array_equal(value, a.array * 2)
    assert ex.evaluate([]) == []
    assert ex.evaluate(7) == 7


@pytest.mark.spec("M-E1", "M-D11")
def test_leaves_duplicates_and_views_can_be_requested() -> None:
    y = ex.tanh(a)
    plan = ex.EvalPlan()
    roots = [
        a,
        y,
        y,
        y[0],
        ex.transpose(y),
        a[1],
        ex.transpose(a),
        ex.ZeroTensor((2,)),
        ex.TrivialTensor(3.0, (2, 2)),
        y + 0,
    ]
    roots.append(ex.BiasVector(3, 1, 2.0))
    handles = [plan.register(root) for root in roots]
    plan.eval()
    t = np.tanh(a.array)
    expected = [a.array, t, t, t[0], t.T, a.array[1], a.array.T, np.zeros(2), np.full((2, 2), 3.0), t, [0, 2, 0]]
    for handle, value, root in zip(handles, expected, roots, strict=True):
        assert np.array_equal(handle.data(), value)
        assert handle.data().dtype == root.dtype
        assert not handle.data().flags.writeable


@pytest.mark.spec("P-8")
def test_results_are_read_only_and_unchanged_by_later_runs() -> None:
    plan = ex.EvalPlan()
    held = []
    for factor in range(1, 5):
        y = ex.tanh(a * float(factor)) @ ex.transpose(a)
        handles = [plan.register(y), plan.register(y[0]), plan.register(ex.exp(y))]
        plan.eval()
        held.append(([h.data() for h in handles], [np.array(h.data()) for h in handles]))
    for values, copies in held:
        for value, copy in zip(values, copies, strict=True):
            assert np.array_equal(value, copy)
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0


@pytest.mark.spec("M-D8")
def test_an_array_of_the_user_is_neither_frozen_nor_shared() -> None:
    mine = np.arange(3.0)
    tensor = ex.tensor(mine)
    value = ex.evaluate(tensor)
    mine[0] = 99
    assert value[0] == 0
    x = Parameter(ex.TensorType((3,), "float64"), "x")()
    plan = ex.EvalPlan()
    handles = [plan.register(x), plan.register(x[::-1]), plan.register(x + 1.0)]
    plan.eval({x: mine})
    before = [np.array(handle.data()) for handle in handles]
    mine[...] = -1
    for handle, value in zip(handles, before, strict=True):
        assert np.array_equal(handle.data(), value)


@pytest.mark.spec("P-17")
def test_parameters_need_a_value_of_their_type() -> None:
    x = Parameter(ex.TensorType((3,), "float32"), "speed")()
    y = ex.tanh(x * 2.0)
    plan = ex.EvalPlan()

    def given(value: Any) -> Any:
        handle = plan.register(y)
        plan.eval({x: value})
        return handle.data()

    np.testing.assert_allclose(given(np.ones(3)), np.tanh(np.full(3, 2, np.float32)))
    assert given([1, 2, 3]).dtype == np.float32
    for wrong in (np.ones(4), 1.0, np.ones((1, 3)), np.ones(3) * 1j):
        with pytest.raises(ex.OperandError, match="speed"):
            given(wrong)
    plan.register(y)
    with pytest.raises(ex.StateError, match="'speed'"):
        plan.eval()
    plan.register(y)
    with refused(ex.OperandError, "parameters"):
        plan.eval({a: np.ones(3)})
    assert plan.eval() is plan


@pytest.mark.parametrize("record", ["off", "times", "values"])
def test_threads_that_share_a_plan_get_correct_values_or_an_error(record: Any) -> None:
    """Six threads use one plan as fast as possible; each error contains the rule."""
    plan, x = ex.EvalPlan(record=record), ex.tensor(np.ones(3))
    begin, refusals, values, others = threading.Barrier(6), list[str](), list[bool](), list[BaseException]()

    def work(seed: int) -> None:
        begin.wait()
        for number in range(1000 * seed, 1000 * seed + 100):
            try:
                handle = plan.register(x * number + 1)
                plan.eval()
                values.append(bool((handle.data() == number + 1).all()))
            except ex.StateError as error:
                refusals.append(error.given)
            except BaseException as error:
                others.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not others
    assert values
    assert all(values)
    assert len(values) + len(refusals) == 600
    assert {*refusals} <= {f"{name}() of a plan that another thread is using" for name in ("register", "eval")}


def test_calls_of_another_thread_during_a_run_raise_an_error() -> None:
    """Nothing is computed for them, and the run is not disturbed."""
    plan, x = ex.EvalPlan(), ex.tensor([1.0])
    refusals: list[str] = []

    def call() -> None:
        for method, arguments in (
            (plan.register, (x,)),
            (plan.bind, ({},)),
            (plan.prepare, ()),
            (plan.eval, ()),
            (plan.explore, ()),
        ):
            with pytest.raises(ex.StateError, match="only one thread may use a plan") as error:
                method(*arguments)
            refusals.append(error.value.given)

    class Calling(ex.Data):  # type: ignore[misc]
        """A number whose evaluation lets another thread call the plan."""

        type = ex.TensorType((), np.float64)

        def evaluate(self) -> Any:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
            return np.asarray(2.0)

    handle = plan.register(x * Calling())
    plan.eval()
    assert handle.data() == 2
    names = ("register", "bind", "prepare", "eval", "explore")
    assert refusals == [f"{name}() of a plan that another thread is using" for name in names]
    plan.register(x)
    plan.eval()


def test_each_thread_has_a_default_plan_and_two_plans_run_concurrently() -> None:
    seen: list[Any] = []
    shared = ex.function(lambda x: ex.tanh(x @ x) + ex.exp(ex.tanh(x)))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            seen.append(ex.default_plan())
            for round_ in range(20):
                x = ex.tensor(np.random.default_rng(seed * 100 + round_).normal(size=(40, 40)))
                plan = ex.EvalPlan(inline=Inline(0))
                handle, other = plan.register(shared(x)), (x * 2.0).eval_register()
                plan.eval()
                ex.default_plan().eval()
                expected = np.tanh(x.array @ x.array) + np.exp(np.tanh(x.array))
                np.testing.assert_allclose(handle.data(), expected, rtol=1e-12)
                assert np.array_equal(other.data(), x.array * 2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({id(plan) for plan in [*seen, ex.default_plan()]}) == 5


def test_options_are_checked() -> None:
    for wrong in ({"record": "all"}, {"executor": "fast"}, {"without": ["fusing"]}, {"fused": 3}):
        with pytest.raises(ex.ExplorerError, match="known"):
            ex.EvalPlan(**wrong)


@pytest.mark.spec("P-17", headline=True)
def test_prepare_previews_the_plan_and_eval_adds_measurements() -> None:
    """Preview a plan with estimates before a run, which then adds measurements to the same recording."""
    plan = ex.EvalPlan(title="demo")
    plan.register(ex.log(ex.exp(a)))
    before = plan.prepare().recording
    assert before.run is None
    assert before.title == "demo"
    assert [stage.kind for stage in before.stages][-1] == "memory"
    assert "log_exp" in plan.explain()
    after = plan.eval().recording
    assert after.run is not None
    assert after.fingerprint == before.fingerprint
    assert len(after.run.steps) == len(after.schedule.kernels)  # type: ignore[union-attr]
    assert after.stages[-1].kind == "run"


def test_several_values_are_registered_all_or_none() -> None:
    x = ex.tensor([1.0, 2.0])
    plan = ex.EvalPlan()
    total, double = plan.register(x.sum(), x * 2)
    plan.eval()
    assert float(total.data()) == 3.0
    assert double.data().tolist() == [2.0, 4.0]
    with pytest.raises(ex.OperandError):
        plan.register(x + 1, object())
    assert repr(plan) == "<plan: 2 evaluated>"


def test_registering_after_prepare_plans_again() -> None:
    plan = ex.EvalPlan()
    first = plan.register(a + 1.0)
    plan.prepare()
    second = plan.register(a + 2.0)
    plan.eval()
    assert np.array_equal(first.data(), a.array + 1)
    assert np.array_equal(second.data(), a.array + 2)


def test_a_handle_of_a_failed_run_contains_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure or an interrupt it reports the cause; registered again, the expression has a value."""
    x = ex.tensor(np.ones(3))
    y = ex.tanh(x)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    plan = ex.EvalPlan()
    handle = plan.register(y)
    monkeypatch.setattr(type(y.operation), "kernel", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan.eval()
    monkeypatch.undo()
    plan.eval()
    with pytest.raises(ex.StateError, match=r"ended with KeyboardInterrupt(.|\n)*plan\.register\(expression\)"):
        handle.data()
    again = plan.register(y)
    plan.eval()
    np.testing.assert_allclose(again.data(), np.tanh(1.0))


def test_an_allocation_failure_is_reported_with_the_largest_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """RunError states the requested size, and another plan can run afterwards."""
    monkeypatch.setattr(ex.budget, "memory", 1 << 60)
    wide = ex.broadcast_to(ex.tensor(np.zeros(1, np.float32)), (1, 1 << 24)) + 1.0
    with pytest.raises(ex.RunError, match=r"bytes; the largest result is <(.|\n)*fit into"):
        ex.evaluate(((ex.TrivialTensor(2.0, (1 << 24, 1)) + 1.0) * wide).sum())
    assert ex.evaluate(ex.tensor(1.0) + 1.0) == 2.0


def test_a_plan_has_a_repr_and_one_name() -> None:
    plan = ex.EvalPlan(title="one", without="fuse")
    assert plan.without == ("fuse",)
    assert repr(plan) == "<plan 'one': 0 registered, not planned>"
    plan.register(ex.tensor(1.0) + 1.0)
    assert repr(plan.prepare()) == "<plan 'one': 1 registered, prepared>"
    assert repr(plan.eval()) == "<plan 'one': 1 evaluated>"
    plan.register(ex.tensor(1.0) * 2.0)
    assert repr(plan) == "<plan 'one': 1 evaluated; 1 registered, not planned>"


def test_an_unknown_option_lists_all_options() -> None:
    with pytest.raises(ex.UnknownNameError) as caught:
        ex.EvalPlan(prizes="measured")
    known = "batch, cost_model, costs, device, executor, inline, lanes, order, recall, record, title, without"
    assert set(known.split(", ")) <= set(
        str(caught.value).replace("known: ", "").replace("\n", " ").replace(",", "").split()
    )
    with pytest.raises(ex.UnknownNameError, match="known: measured, reference"):
        ex.EvalPlan(costs="guessed")
    with pytest.raises(ex.UnknownNameError, match="known: executor"):
        ex.EvalPlan(excutor="simple")


@pytest.mark.parametrize(
    ("options", "today"),
    [
        ({"without": ["group"]}, "batch"),
        ({"without": ["open"]}, "inline"),
        ({"without": ["layout"]}, "memory_format"),
        ({"group": None}, "batch"),
        ({"open": None}, "inline"),
        ({"prices": None}, "cost_model"),
    ],
)
def test_a_renamed_option_is_unknown_and_current_names_are_listed(options: dict[str, Any], today: str) -> None:
    """Passes and options with former names raise an error that lists the current ones."""
    with pytest.raises(ex.UnknownNameError, match=rf"known: .*\b{today}\b"):
        ex.EvalPlan(**options)


@pytest.mark.spec("P-4", "P-14", "P-17")
def test_measured_costs_are_optional_and_reported() -> None:
    """With costs="measured" this machine's kernel times decide batches and order, and the plan reports it."""
    cost_model = ex.calibrate()
    assert all(
        price > 0
        for price in (
            cost_model.call,
            cost_model.view,
            cost_model.flops,
            cost_model.product_flops,
            cost_model.bandwidth,
        )
    )
    xs = [ex.tensor(np.ones(16) * i) for i in range(50)]
    plans = {}
    for costs in ("reference", "measured"):
        plans[costs] = ex.EvalPlan(costs=costs)
        handles = [plans[costs].register(np.tanh(x) + 1.0) for x in xs]
        plans[costs].prepare().eval()
        np.testing.assert_allclose([h.data()[0] for h in handles], np.tanh(np.arange(50)) + 1)
        assert f"costs={costs}" in plans[costs].explain()
    assert plans["measured"].options.find(Order).cost_model == cost_model
    assert plans["reference"].options.find(Order).cost_model != cost_model


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"device": "nonsense"}, "device must be a device, or None"),
        ({"device": 3}, "device must be a device"),
        ({"without": 3}, "without must be the names of passes"),
        ({"without": [3]}, "without must be the names of passes"),
        ({"without": None}, "without must be the names of passes"),
        ({"without": {"fuse": 1}}, "without must be the names of passes"),
        ({"without": "fusing"}, "known: "),
        ({"record": None}, "record must be one of the names off, times, values"),
        ({"record": "value"}, "known: values"),
        ({"executor": 3}, "executor must be one of the names .*dag"),
        ({"costs": None}, "costs must be one of the names measured, reference"),
        ({"title": 3}, "title must be a string"),
        ({"recall": "yes"}, "recall must be True or False"),
        ({"recall": 1}, "recall must be True or False"),
        ({"lanes": True}, "integer of 1 or more"),
        ({"lanes": 2.0}, "integer of 1 or more"),
        ({"order": 3}, "order must be one of the names depth_first, earliest"),
        ({"cost_model": "reference"}, "cost_model must be a cost model"),
        ({"batch": 3}, "batch must be the pass Batch"),
        ({"inline": "all"}, "inline must be the pass Inline"),
        ({"recording": "values"}, "known: record"),
    ],
)
def test_invalid_arguments_raise_an_error_before_planning(options: dict[str, Any], rule: str) -> None:
    """Errors of evaluate and explore about plan arguments contain the given value, the rule and the fix."""
    y = ex.tensor(np.zeros(3)) + 1.0
    handle = y.eval_register()
    calls: list[Callable[[], object]] = [
        lambda: ex.EvalPlan(**options),
        lambda: ex.evaluate(y, **options),
        lambda: ex.explore(y, plan=options) if "record" not in options else ex.explore(y, **options),
    ]
    for call in calls:
        with pytest.raises(ex.ExplorerError, match=f"rule: .*{rule}") as caught:
            call()
        ((name, value),) = options.items()
        assert name in caught.value.given or str(value) in caught.value.given
    ex.default_plan().eval()
    assert handle.data().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda x: ex.default_plan("cpu"), "device must be a device"),
        (lambda x: ex.EvalPlan().bind(3), "inputs must be values by parameter"),
        (lambda x: ex.EvalPlan().eval(3), "inputs must be values by parameter"),
        (lambda x: ex.explore(x, plan=3), "plan must be options of ex.EvalPlan"),
        (lambda x: ex.explore(x, run=3), "run must be True or False"),
        (lambda x: ex.explore(x, width=3), "known: .*height"),
        (lambda x: ex.explore(x, theme=3), "theme must be one of the names"),
        (lambda x: ex.explore(x, theme="drak"), "known: dark"),
        (lambda x: ex.explore(x, height="tall"), "height must be an integer"),
        (lambda x: ex.explore(x, position=None), "position must be an integer"),
    ],
)
def test_invalid_arguments_of_plans_and_views_raise_an_error(call: Callable[[Any], object], rule: str) -> None:
    with pytest.raises(ex.ExplorerError, match=f"rule: .*{rule}"):
        call(ex.tensor(np.zeros(3)) + 1.0)
