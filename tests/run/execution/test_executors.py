"""Executors: equal bits, concurrent independent kernels, and consistent state after failures and interrupts."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import explorer as ex
from assets import seeded
from explorer.formats import pnnx
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.plan import Options, plan
from explorer.plan.passes import Inline, Order
from explorer.run.execution import kernel_dependencies
from explorer.run.execution.executors import EXECUTORS, run_async, run_dag, run_simple
from explorer.run.execution.executors.dag import assigned
from explorer.run.execution.program import Program
from explorer.run.runtime import thread_pool
from tests.support.programs import limits, programs, sized, subsets
from tests.support.refusals import refused
from tests.support.threads import blas_threads

MODELS = Path(__file__).parents[3] / "assets" / "models"
ACTS: dict[str, Callable[[], object]] = {}


class Act(ex.Elementwise):
    """x; calls the function in ``act``, and has a cost that justifies a thread."""

    act: str
    nondifferentiable = "a test"
    weight = 10**9
    examples = (ex.Example(ex.real(3), act="none"),)

    def kernel(self, out: Any, x: Any) -> Any:
        ACTS.get(self.act, lambda: None)()
        np.copyto(out, x)
        return out


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    with threadpool_limits(2, user_api="blas"):
        yield
    ACTS.clear()


def acting(act: str, value: float = 1.0) -> ex.Expr:
    return Act(act)(ex.tensor(np.full(3, value)))


def prepared(*roots: ex.Expr, **options: Any) -> tuple[ex.EvalPlan, list[ex.Handle]]:
    plan = ex.EvalPlan(executor="dag", without=("fuse", "batch"), **options)
    return plan, [plan.register(root) for root in roots]


def meeting(parties: int = 2) -> Callable[[], object]:
    """Wait at a barrier for other kernels, which breaks without them."""
    return threading.Barrier(parties, timeout=30).wait


@pytest.mark.spec("P-11", "M-E8", "P-7", headline=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    roots=st.one_of(sized(), programs()),
    without=subsets,
    limit=limits,
    lanes=st.sampled_from((1, 2, 4)),
    threads=st.sampled_from((2, 3, 5)),
    run=st.sampled_from((run_dag, run_async)),
)
def test_executors_give_the_same_bits(
    roots: Any, without: Any, limit: int, lanes: int, threads: int, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a plan with the executors simple, dag or async and get bitwise equal results."""
    monkeypatch.setattr(kernel_dependencies, "_MIN_LARGE", 0.0)  # use threads for everything
    options = Options(without=without, inline=Inline(limit))
    simple = Program(plan(roots, options))
    run_simple(simple)
    expected = simple.take()
    program = Program(plan(roots, options.with_fields(Order, lanes=lanes)))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with threadpool_limits(threads, user_api="blas"):
            for _ in range(3):
                run(program)
                result = program.take()
                assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(result, expected, strict=True))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.spec("C-10", "P-11", "M-E8", headline=True)
@pytest.mark.parametrize("name", ["mobilenet_v2", "encoder", "lstm"])
@pytest.mark.parametrize("executor", ["dag", "async"])
def test_a_net_gives_the_same_bits(name: str, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a net with the executors simple, dag or async and get the same results.

    To the last bit with one thread of BLAS: on some processors BLAS itself adds in another order on several.
    """
    monkeypatch.setattr(kernel_dependencies, "_MIN_LARGE", 0.0)
    definition = pnnx.read(MODELS / f"{name}.pnnx.param")
    held = [weight for operator in definition.operators for weight in operator.weights.values()]
    weights = {weight.key: seeded.weight(weight.key, weight.shape) for weight in held}
    net = Net(replace(definition, weights=weights), TABLE)
    sizes = {"mobilenet_v2": (1, 3, 96, 96), "encoder": (1, 32), "lstm": (1, 20)}
    given = [seeded.given(key, sizes[name], blob.dtype or "float32") for key, blob in net.inputs.items()]
    with threadpool_limits(1, user_api="blas"):
        expected, result = net.run(*given), net.run(*given, executor=executor)
    others = net.run(*given, executor=executor)
    for a, b, c in zip(*[x.values() if isinstance(x, dict) else [x] for x in (expected, result, others)], strict=True):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(c, a, rtol=1e-4, atol=1e-6)
    with pytest.raises(ex.UnknownNameError, match=r"known: .*dag.*simple"):
        net.run(*given, executor="slow")


@pytest.mark.spec("P-11", "C-10")
def test_streams_are_assigned_before_the_run() -> None:
    """With "async" each chain has a stream from the estimates, so that every run shows the same lanes."""
    ACTS["meet"] = meeting()
    lanes = set()
    for _ in range(4):
        branches = [acting("meet", 1.0), acting("meet", 2.0), acting("none", 3.0), acting("none", 4.0)]
        plan = ex.EvalPlan(executor="async", without=("fuse", "batch"))
        handles = [plan.register(branch + 1.0) for branch in branches]
        plan.eval()
        assert [handle.data()[0] for handle in handles] == [2.0, 3.0, 4.0, 5.0]
        run = plan.recording.run
        assert run is not None
        assert run.executor == "async"
        lanes.add(tuple(step.thread for step in sorted(run.steps, key=lambda step: step.kernel)))
    assert len(lanes) == 1
    assert {*lanes.pop()} == {0, 1}


@pytest.mark.spec("P-11")
def test_a_stream_keeps_its_order() -> None:
    """A chain waits for the previous one in its stream even if a thread is idle."""
    branches = [ex.tanh(ex.tensor(np.full((300, 300), float(n))) @ np.ones((300, 300))).sum() for n in range(2, 9)]
    program = Program(plan(branches, Options(lanes=4, without=("batch",))))
    streams, tasks = assigned(program, 2)
    for stream in {*streams}:
        members = [chain for chain, where in enumerate(streams) if where == stream]
        assert sum(tasks.needs[chain] == 0 for chain in members) <= 1
    assert sum(tasks.needs) == sum(len(users) for users in tasks.users)
    EXECUTORS["async"].run(program, None)
    for result, expected in zip(program.take(), ex.evaluate(branches), strict=True):
        assert np.array_equal(result, expected)


@pytest.mark.spec("M-E8", "P-11", headline=True)
def test_independent_kernels_run_concurrently_and_record_their_thread() -> None:
    """Run independent kernels at the same time; two kernels that wait for each other both finish."""
    ACTS["meet"] = meeting()
    plan, handles = prepared(acting("meet", 1.0) * 2.0, acting("meet", 2.0) * 3.0)
    plan.eval()
    assert [handle.data()[0] for handle in handles] == [2.0, 6.0]
    run = plan.recording.run
    assert run is not None
    assert run.executor == "dag"
    assert [step.start for step in run.steps] == sorted(step.start for step in run.steps)
    first, second = [step for step in run.steps if plan.planned.schedule.kernels[step.kernel].cost.flops > 10**9]
    assert min(first.thread, second.thread) == 0 < max(first.thread, second.thread)
    assert second.start < first.start + first.micros  # they overlap
    assert run.micros >= max(step.start + step.micros for step in run.steps) - 1e-6


@pytest.mark.spec("P-11")
def test_a_division_by_zero_gives_a_value_on_every_thread() -> None:
    """NumPy raises no warning, and the result is the formula's."""
    ACTS["meet"] = meeting()
    zeros = ex.tensor(np.zeros(3))
    plan, handles = prepared(acting("meet", 1.0) / zeros, acting("meet", -1.0) / zeros)
    plan.eval()
    assert [handle.data()[0] for handle in handles] == [np.inf, -np.inf]


@pytest.mark.spec("P-11", "P-7")
def test_a_chain_runs_on_one_thread() -> None:
    """Kernels of one execution chain stay on the thread that started it."""
    ACTS["meet"] = meeting()
    branches = [acting("meet", number) for number in (1.0, 2.0)]
    for _ in range(5):
        branches = [Act("none")(branch) + 1.0 for branch in branches]
    plan, _ = prepared(*branches)
    plan.eval()
    assert plan.recording.run is not None
    chains = plan.planned.schedule.chains
    threads: dict[int, set[int]] = {}
    for step in plan.recording.run.steps:
        threads.setdefault(chains[step.kernel], set()).add(step.thread)
    assert [len(members) for members in threads.values()] == [1, 1]
    assert len(set.union(*threads.values())) == 2


@pytest.mark.spec("P-11", "P-8")
def test_the_plan_reports_concurrent_kernels_and_their_time() -> None:
    """Lanes are a decision with both times, with memory planned for them; for a simple chain it is declined."""
    branches = [ex.tanh(ex.tensor(np.full((400, 400), float(n))) @ np.ones((400, 400))).sum() for n in range(2, 6)]
    beside = plan(branches, Options(lanes=4, without=("batch",)))
    (decision,) = [decision for decision in beside.graph.decisions if decision.rule == "Lanes"]
    assert decision.applied
    assert decision.facts["together_us"] < decision.facts["alone_us"] / 3
    alone = plan(branches, Options(without=("batch",)))
    assert beside.schedule.peak == pytest.approx(4 * alone.schedule.peak, rel=0.1)
    line = [ex.tanh(branches[0] * ex.tensor(np.ones(5))) @ np.ones((5, 5))]
    (declined,) = [decision for decision in plan(line, Options(lanes=4)).graph.decisions if decision.rule == "Lanes"]
    assert not declined.applied
    assert declined.code == "nothing_independent"
    assert plan(line, Options(lanes=4)).schedule.peak == plan(line).schedule.peak
    value, _ = prepared(*branches)
    assert value.prepare().recording.options["lanes"] == 4
    with refused(ex.OperandError, "lanes"):
        ex.EvalPlan(lanes=0)


@pytest.mark.spec("P-11")
@pytest.mark.parametrize("fails", [0, 1])
def test_a_failure_on_any_thread_stops_the_run_and_is_named(fails: int) -> None:
    """The error has operation, types and line; running kernels end, and no other kernel starts."""
    meet, ended, begun = meeting(), threading.Event(), []
    caller = threading.get_ident()

    def fail_or_end() -> None:
        meet()
        if (threading.get_ident() == caller) == (fails == 0):
            raise ValueError("no more")
        threading.Event().wait(0.2)
        ended.set()

    ACTS["one"], ACTS["later"] = fail_or_end, lambda: begun.append(1)
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    failing = [Act("one")(ex.tensor(np.full(3, value))) for value in (1.0, 2.0)]
    plan, handles = prepared(*[Act("later")(x) for x in failing], *[acting("later", value) for value in (3.0, 4.0)])
    with pytest.raises(ex.RunError) as caught:
        plan.eval()
    assert str(caught.value).startswith(f"act of (3 float64) recorded at test_executors.py line {line}: ")
    assert str(caught.value).endswith("ValueError: no more")
    assert isinstance(caught.value.__cause__, ValueError)
    assert ended.is_set()
    assert not begun
    for handle in handles:
        with pytest.raises(ex.StateError, match="ended with RunError"):
            handle.data()
    ACTS.clear()
    again = [plan.register(acting("none", value)) for value in (5.0, 6.0)]
    plan.eval()
    assert [handle.data()[0] for handle in again] == [5.0, 6.0]


@pytest.mark.spec("P-11")
@pytest.mark.parametrize("sooner", ["a", "b", ""])
def test_of_concurrent_failures_the_first_in_the_schedule_is_raised(sooner: str) -> None:
    """The error does not depend on which of two concurrent kernels fails sooner."""
    meet, failed = meeting(), threading.Event()

    def fail(name: str, text: str) -> Callable[[], None]:
        def run() -> None:
            meet()
            if sooner and name != sooner:
                failed.wait(30)
                threading.Event().wait(0.1)  # the other failure is recorded by now
            failed.set()
            raise ValueError(text)

        return run

    ACTS["a"], ACTS["b"] = fail("a", "first"), fail("b", "second")
    for _ in range(1 if sooner else 5):
        plan, _ = prepared(acting("a"), acting("b"))
        with pytest.raises(ex.RunError, match="first"):
            plan.eval()


@pytest.mark.spec("P-11")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, ex.RunError])
@pytest.mark.parametrize("run", [run_simple, run_dag, run_async])
def test_a_run_that_ends_early_keeps_no_value(run: Callable[[Program], object], error: type[BaseException]) -> None:
    """After Ctrl-C or a failure the program keeps no computed result."""

    def fail() -> None:
        raise error("now")

    ACTS["fail"] = fail
    first = acting("none", 2.0)
    beside = acting("none", 7.0)  # no threads are requested for a single chain
    program = Program(plan([first, Act("fail")(first), beside], Options(without=("batch", "fuse"))))
    slot = program.slots[first.uid]
    assert slot in program.temporary
    with pytest.raises((error, ex.RunError)):
        run(program)
    assert program.values[slot] is None
    ACTS.clear()
    run(program)
    assert [value.tolist() for value in program.take()] == [[2.0] * 3, [2.0] * 3, [7.0] * 3]


@pytest.mark.spec("P-11")
@pytest.mark.parametrize("is_cached", [False, True])
def test_an_interrupt_that_a_library_converted_to_an_error_is_an_interrupt(is_cached: bool) -> None:
    """NumPy does so while it reads a buffer's format; interrupts from before the run do not count."""

    def swallow() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ValueError("not a buffer") from None

    def fail() -> None:
        raise ValueError("a failure")

    if is_cached:
        ex.evaluate(acting("cached", 2.0))
    ACTS["cached"] = swallow
    with pytest.raises(KeyboardInterrupt):
        ex.evaluate(acting("cached", 2.0))
    ACTS["cached"] = fail
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(ex.RunError, match="a failure"):
            ex.evaluate(acting("cached", 2.0))
    ACTS.clear()
    assert ex.evaluate(acting("cached", 2.0)).tolist() == [2.0] * 3


@pytest.mark.spec("P-11")
def test_products_use_one_thread_each_while_kernels_run_concurrently() -> None:
    """BLAS has its threads again when the run ends or fails."""
    seen: list[list[int]] = []
    ACTS["look"], ACTS["fail"] = lambda: seen.append(blas_threads()), lambda: 1 / 0
    before = blas_threads()
    assert before == [2]
    plan, _ = prepared(acting("look", 1.0), acting("look", 2.0))
    plan.eval()
    plan, _ = prepared(acting("look", 1.0), acting("fail", 2.0))
    with pytest.raises(ex.RunError):
        plan.eval()
    assert seen
    assert all(result == [1] for result in seen)
    assert blas_threads() == before


@pytest.mark.spec("P-11")
@pytest.mark.parametrize("executor", ["simple", "dag", "async"])
@pytest.mark.parametrize("record", ["times", "values"])
def test_the_failing_one_of_several_kernels_is_named(executor: str, record: str) -> None:
    ACTS["fail"] = lambda: 1 / 0
    nodes = [Act("fail" if size == 4 else "none")(ex.tensor(np.ones(size))) for size in (2, 3, 4, 5)]
    plan = ex.EvalPlan(executor=executor, record=record, without=("fuse", "batch"))
    for node in nodes:
        plan.register(node)
    with pytest.raises(ex.RunError, match=r"^act of \(4 float64\)"):
        plan.eval()


@pytest.mark.spec("P-11")
def test_an_interrupt_is_raised_after_all_workers_stopped() -> None:
    """After Ctrl-C a worker finishes its kernel, BLAS has its threads again, and the plan can run again."""
    before = blas_threads()
    meet, ended = meeting(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def act() -> None:
        meet()
        if threading.get_ident() == main:
            signal.pthread_kill(main, signal.SIGINT)
            threading.Event().wait(10)
        else:
            threading.Event().wait(0.3)
            ended.set()

    ACTS["act"] = act
    plan, handles = prepared(acting("act", 1.0), acting("act", 2.0))
    with pytest.raises(KeyboardInterrupt):
        plan.eval()
    assert ended.is_set()
    assert blas_threads() == before
    with pytest.raises(ex.StateError, match="ended with KeyboardInterrupt"):
        handles[0].data()
    ACTS["act"] = meeting()
    again = [plan.register(acting("act", value)) for value in (3.0, 4.0)]
    plan.eval()
    assert [handle.data()[0] for handle in again] == [3.0, 4.0]


@pytest.mark.spec("P-11")
def test_an_interrupt_while_waiting_for_a_worker() -> None:
    """Ctrl-C in the waiting main thread is raised after the worker's kernel."""
    main, meet, ended = threading.main_thread().ident, meeting(), threading.Event()
    assert main is not None

    def act() -> None:
        meet()
        if threading.get_ident() != main:
            threading.Event().wait(0.2)  # the other one is waiting by now
            signal.pthread_kill(main, signal.SIGINT)
            threading.Event().wait(0.2)
            ended.set()

    ACTS["act"] = act
    plan, _ = prepared(acting("act", 1.0), acting("act", 2.0))
    with pytest.raises(KeyboardInterrupt):
        plan.eval()
    assert ended.is_set()


@pytest.mark.spec("P-11", "V-20")
@pytest.mark.parametrize("waiting", [False, True])
def test_progress_is_reported_on_the_calling_thread_and_can_cancel(waiting: bool) -> None:
    """It is reported while that thread works and while it waits; cancelling stops all threads."""
    main, meet, seen = threading.get_ident(), meeting(), []

    def act() -> None:
        meet()
        if threading.get_ident() != main:
            threading.Event().wait(0.5 if waiting else 0.05)

    def report(step: ex.Progress) -> None:
        if step.phase == "running":
            seen.append((threading.get_ident(), step))
            if len(seen) == (3 if waiting else 1):
                raise ex.Cancelled

    ACTS["act"] = act
    if not waiting:
        meet = meeting(1)
    plan, handles = prepared(acting("act", 1.0), acting("act", 2.0))
    with pytest.raises(ex.Cancelled), ex.progress(report):
        plan.eval()
    assert {thread for thread, _ in seen} == {main}
    assert {step.total for _, step in seen} == {2}
    with pytest.raises(ex.StateError, match="ended with Cancelled"):
        handles[0].data()
    ACTS.clear()
    again = plan.register(acting("none", 7.0))
    plan.eval()
    assert again.data()[0] == 7.0


@pytest.mark.spec("P-11")
def test_a_kernel_may_run_a_plan() -> None:
    """A kernel on a worker evaluates its own plan with the same executor."""
    meet, results = meeting(), []

    def act() -> None:
        meet()
        results.append(ex.evaluate([acting("none", 3.0), acting("none", 4.0)], executor="dag")[1][0])

    ACTS["act"] = act
    plan, handles = prepared(acting("act", 1.0), acting("act", 2.0))
    plan.eval()
    assert results == [4.0, 4.0]
    assert [handle.data()[0] for handle in handles] == [1.0, 2.0]


@pytest.mark.spec("P-11")
def test_plans_run_in_several_threads_concurrently() -> None:
    """Four threads repeatedly run separate plans: all values are correct, and BLAS has its threads again."""
    before = blas_threads()
    random = np.random.default_rng(0)
    weights = [random.normal(size=(120, 120)) for _ in range(6)]
    wrong: list[object] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=(120, 120))
        branches = [ex.tanh(ex.tensor(x) @ w) @ w for w in weights]
        expected = ex.evaluate(branches)
        for _ in range(4):
            result = ex.evaluate(branches, executor="dag")
            if not all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)
    assert blas_threads() == before


@pytest.mark.spec("P-11")
def test_a_forked_process_runs_an_executor_with_threads() -> None:
    """The child process has its own threads."""
    program = """
import os, sys
import numpy as np
from threadpoolctl import threadpool_limits
import explorer as ex
x = np.random.default_rng(0).normal(size=(4, 300, 300)).astype("float32")
def value(): return ex.evaluate([ex.tanh(ex.tensor(part) @ x[0]) @ part for part in x], executor="dag")
with threadpool_limits(2, user_api="blas"):
    before = value()
    child = os.fork()
    same = np.array_equal(value(), before)
    if child == 0:
        os._exit(0 if same else 1)
    sys.exit(0 if same and os.waitpid(child, 0)[1] == 0 else 1)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0


@pytest.mark.spec("P-11")
def test_the_calling_thread_does_everything_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool)
    monkeypatch.setattr(thread_pool._thread, "start_new_thread", refuse)
    plan, handles = prepared(*[acting("none", float(value)) for value in range(4)])
    plan.eval()
    assert [handle.data()[0] for handle in handles] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.spec("P-11", "V-9")
def test_values_are_summarized_as_by_the_simple_executor() -> None:
    """``record="values"`` gives the same summaries, including values inside kernels."""
    x = ex.tensor(np.random.default_rng(0).normal(size=(200, 200)))
    roots = [ex.tanh(ex.exp(x * scale) @ x + 1.0).sum(axis=0) for scale in (0.1, 0.2, 0.3)]
    results = []
    for executor in ("simple", "dag", "async"):
        plan = ex.EvalPlan(executor=executor, record="values", lanes=4)
        for root in roots:
            plan.register(root)
        plan.eval()
        assert plan.recording.run is not None
        results.append(plan.recording.run.values)
    assert results[0] == results[1] == results[2]
    assert len(results[0]) > 12


@pytest.mark.spec("P-11", "P-8")
def test_a_partitioned_kernel_uses_idle_threads() -> None:
    """Both threads compute a last single branch; two concurrent branches use one thread each where possible."""
    seen: set[int] = set()

    random = np.random.default_rng(0)
    big = ex.tensor(random.normal(size=(3000, 3000)).astype("float32"))
    plan = ex.EvalPlan(executor="dag", without=("batch",))
    ACTS["seen"] = lambda: seen.add(threading.get_ident())
    handles = [plan.register(ex.tanh(ex.exp(Act("seen")(big * scale) * 0.5))) for scale in (0.5, 0.25)]
    plan.eval()
    expected = np.tanh(np.exp(big.array * np.float32(0.5) * np.float32(0.5)))
    np.testing.assert_array_equal(handles[0].data(), expected)
    assert len(seen) == 2


def test_values_are_recorded_in_one_order() -> None:
    """The order does not depend on which thread ends first, so that notebooks with values are reproducible."""
    leaves = [ex.tensor(np.full((side, side), 1, dtype=np.float32)) for side in (400, 16, 300, 20, 350, 18) * 3]
    orders = set()
    for _ in range(10):
        plan = ex.EvalPlan(executor="dag", record="values", without="batch")
        for leaf in leaves:
            plan.register((leaf @ leaf).sum())
        plan.eval()
        orders.add(tuple(plan.recording.run.values))
    assert len(orders) == 1


def test_a_failure_inside_a_layer_names_the_layer() -> None:
    module = ex.train.Module(loss=ex.train.CrossEntropy(), optimizer=ex.train.SGD(0.1))
    module.add_node(ex.train.Linear("scores", 3, 2))
    module.add_node(lambda x: x + ex.one_hot(ex.tensor(np.array([5, 0])), 2), name="wrong")
    module.attach()
    with pytest.raises(ex.RunError, match=r"one_hot of .* in the layer 'wrong' \(<lambda>\).*label 5 with 2 classes"):
        module.predict(np.ones((2, 3)))
