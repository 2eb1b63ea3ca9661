"""Plans on Dask workers: equal values, recovery after a worker's death, rejected and failing runs. Loopback only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import explorer as ex
from explorer.run.execution.executors import run_dask
from explorer.run.execution.program import Program
from explorer.run.execution.value_capture import ValueCapture
from explorer.run.workers import workers as module
from tests.support.hostile_names import NAMES
from tests.support.refusals import refused

pytestmark = [pytest.mark.filterwarnings("default::DeprecationWarning:distributed"), pytest.mark.xdist_group("dask")]


class Fatal(ex.Elementwise):
    """x; waits at 7, raises at 8, and at 9 kills its process once."""

    flag: str = ""
    nondifferentiable = "a test"
    weight = 10**7
    examples = (ex.Example(ex.real(3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        if x[0] == 8:
            raise ValueError("no more")
        if x[0] == 9 and not os.path.exists(self.flag):
            with open(self.flag, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        np.copyto(out, x)
        return out


@pytest.fixture(scope="module")
def workers() -> Iterator[ex.Workers]:
    with ex.Workers(2, bandwidth=1e5, latency=10, overhead=10) as opened:
        yield opened


def branches(*values: float, flag: str = "") -> list[ex.Expr]:
    return [Fatal(flag)(ex.tensor(np.full(2000, value))) for value in values]


def spread(*roots: ex.Expr, **options: Any) -> tuple[ex.EvalPlan, list[ex.Handle]]:
    plan = ex.EvalPlan(executor="dask", without=("batch", "fuse"), **options)
    handles = [plan.register(root) for root in roots]
    return plan.eval(), handles


def run_stage(plan: ex.EvalPlan) -> Any:
    stage = plan.recording.stages[-1]
    assert stage.name == "run"
    return stage


@pytest.mark.spec("C-14", "P-11")
def test_chains_run_on_workers_with_the_same_bits(workers: ex.Workers) -> None:
    """Branches of products on two processes equal one process, and the recording has each kernel's worker."""
    random = np.random.default_rng(0)
    x = ex.tensor(random.normal(size=(300, 300)))
    roots = [ex.tanh(x * n @ x) @ x for n in range(1, 5)]
    roots.append((roots[0] @ roots[3]).sum(axis=0))
    expected = ex.evaluate(roots)
    for _ in range(2):  # the workers already have the program and the tensor in the second run
        values, handles = spread(*roots)
        for handle, value in zip(handles, expected, strict=True):
            np.testing.assert_allclose(handle.data(), value, rtol=1e-13)
    run = values.recording.run
    assert run is not None
    assert run.executor == "dask"
    assert {step.thread for step in run.steps} >= {1, 2}
    assert all(step.micros >= 0 for step in run.steps)
    stage = run_stage(values)
    assert stage.counts["workers"] == 2
    assert stage.counts["pieces_sent"] >= 2
    assert "chains of kernels on 2 workers: an estimated" in stage.purpose
    assert stage.counts["bytes_sent"] > 0
    assert "workers_lost" not in stage.counts


def test_hostile_names_run_on_workers(workers: ex.Workers) -> None:
    """Names are sent as data, values equal those of one process, and an error shows the names escaped."""
    x = ex.tensor(np.ones((300, 300)), name=NAMES[4])
    roots = []
    for name in NAMES:
        with ex.scope(name):
            roots.append(ex.tanh(x * ex.tensor(np.full(300, 0.5), name=name) @ x))
    _, handles = spread(*roots, title=NAMES[0])
    for handle in handles:
        np.testing.assert_allclose(handle.data(), np.tanh(0.5 * x.array @ x.array), rtol=1e-13)
    with ex.scope(NAMES[4]), pytest.raises(ex.ExplorerError) as error:
        spread(*branches(1, 8, 2))
    assert "no more" in str(error.value)
    assert "\x1b" not in str(error.value)


def test_a_cached_program_uses_the_values_of_new_tensors(workers: ex.Workers) -> None:
    """A plan with the same structure reuses the program on the workers."""
    for seed in (1, 2, 3):
        x = ex.tensor(np.random.default_rng(seed).normal(size=(250, 250)))
        values, handles = spread(*[ex.tanh(x * n @ x).sum(axis=0) for n in (1, 2, 3)])
        for handle, n in zip(handles, (1, 2, 3), strict=True):
            np.testing.assert_allclose(handle.data(), np.tanh(x.array * n @ x.array).sum(axis=0), rtol=1e-12)
    assert values.reused


def test_a_periodic_request_of_dask_does_not_hide_the_workers(
    workers: ex.Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask asks every two seconds for a list without workers; its reply may arrive before the names are returned."""
    client, sync = workers.client, workers.client.sync

    def interrupted(*arguments: Any, **options: Any) -> Any:
        reply = sync(*arguments, **options)
        sync(client._update_scheduler_info)
        return reply

    monkeypatch.setattr(client, "sync", interrupted)
    assert len(workers.names()) == 2


@pytest.mark.spec("C-14")
def test_kernels_that_messages_would_slow_down_stay_local_with_a_reason(workers: ex.Workers) -> None:
    x = ex.tensor(np.arange(4.0))
    values, (handle,) = spread(x + 1)
    assert handle.data().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert "every kernel ends sooner here than a message arrives" in run_stage(values).purpose
    x = ex.tensor(np.random.default_rng(0).normal(size=(300, 300)))
    line = x
    for _ in range(6):
        line = ex.tanh(line @ x)
    values, _ = spread(line)
    assert "messages would take longer than they save" in run_stage(values).purpose


@pytest.mark.spec("C-14", "V-9")
def test_values_are_summarized_locally(workers: ex.Workers) -> None:
    """A run that summarizes values would transfer all of them, so it stays local; the warm run is distributed."""
    values, _ = spread(*branches(1.0, 2.0), record="values")
    run = values.recording.run
    assert run is not None
    assert len(run.values) > 1
    assert {step.thread for step in run.steps} == {1, 2}
    program = Program(values.planned)
    timing = run_dask(program, ValueCapture(program))
    assert [value[0] for value in program.take()] == [1.0, 2.0]
    assert "values are summarised" in timing.notes[0].text


@pytest.mark.spec("C-14", "P-11")
def test_a_kernel_that_fails_on_a_worker_is_named_with_its_line(workers: ex.Workers) -> None:
    with pytest.raises(
        ex.RunError, match=r"fatal of \(2000 float64\) recorded at test_workers.py line \d+: .*no more"
    ) as raised:
        spread(*branches(1.0, 8.0))
    assert isinstance(raised.value.__cause__, ValueError)
    _, handles = spread(*branches(1.0, 2.0))
    assert handles[1].data()[0] == 2.0


@pytest.mark.spec("C-14")
def test_the_work_of_a_worker_that_dies_is_repeated(workers: ex.Workers, tmp_path: Any) -> None:
    """A kernel kills its process: another worker runs the piece, and the recording reports it."""
    values, handles = spread(*branches(1.0, 9.0, 3.0, flag=str(tmp_path / "killed")))
    assert (tmp_path / "killed").exists()
    assert [handle.data()[0] for handle in handles] == [1.0, 9.0, 3.0]
    assert run_stage(values).counts["workers_lost"] == 1
    assert "1 worker has been lost since they were opened (tcp://127.0.0.1:" in run_stage(values).purpose


@pytest.mark.spec("C-14")
def test_the_members_of_a_mapped_function_are_divided_among_workers(workers: ex.Workers) -> None:
    """Each of two processes computes a half, without an option, since the executor knows the open workers."""
    workers.client.wait_for_workers(2, timeout=60)
    weight = ex.tensor(np.random.default_rng(0).normal(size=(256, 256)) / 16)
    samples = np.random.default_rng(1).normal(size=(64, 32, 256))
    mapped = ex.map(lambda x: ex.tanh(ex.tanh(x @ weight) @ weight), samples)
    plan = ex.EvalPlan(executor="dask")
    handle = plan.register(mapped)
    plan.eval()
    np.testing.assert_allclose(handle.data(), ex.evaluate(mapped), rtol=1e-10, atol=1e-12)
    recording = plan.recording
    assert "divided" in [decision.code for decision in recording.decisions]
    assert recording.run is not None
    assert recording.schedule is not None
    results = {step.thread: recording.schedule.kernels[step.kernel].nodes[-1] for step in recording.run.steps[:2]}
    assert {thread: recording.label(node) for thread, node in results.items()} == dict.fromkeys((1, 2), "<lambda> ×32")


@pytest.mark.spec("C-14")
def test_a_run_ends_locally_if_too_few_workers_are_left(workers: ex.Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers are lost and one comes back, which saves nothing alone, so all pieces run locally."""
    ready, wait_for, losses = workers.ready, workers.wait_for, [TimeoutError("values lost")]

    def lose_once(*arguments: Any) -> None:
        if losses:
            raise losses.pop()
        wait_for(*arguments)

    workers.client.wait_for_workers(2, timeout=60)
    monkeypatch.setattr(workers, "ready", lambda: ready() if losses else ready()[:1])
    monkeypatch.setattr(workers, "wait_for", lose_once)
    plan, handles = spread(*branches(1.0, 2.0, 3.0))
    assert not losses
    assert [handle.data()[0] for handle in handles] == [1.0, 2.0, 3.0]
    assert run_stage(plan).counts["pieces_sent"] == 0
    assert "Nothing was sent to workers" in run_stage(plan).purpose


@pytest.mark.spec("C-14")
def test_a_scheduler_that_disappears_is_an_error_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 2.0)
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
    scheduler = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    assert scheduler.stderr is not None
    address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at:" in line)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
    options = ["--host", "127.0.0.1", "--nthreads", "1"]
    processes = [subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        with ex.Workers(address, bandwidth=1e5, latency=10, overhead=10) as opened:
            opened.client.wait_for_workers(2, timeout=60)
            values, handles = spread(*branches(1.0, 2.0))
            assert handles[0].data()[0] == 1.0
            assert run_stage(values).counts["pieces_sent"] == 2
            scheduler.kill()
            scheduler.wait()
            x = ex.tensor([1.0])
            with pytest.raises(
                ex.RunError, match=r"the scheduler at tcp://127.0.0.1:\d+, which (does not answer|has no workers)"
            ):
                spread(*branches(1.0, 2.0))
            assert ex.evaluate(x + 1)[0] == 2.0
    finally:
        for process in (*processes, scheduler):
            process.kill()
            process.wait()
        scheduler.stderr.close()


def test_workers_that_cannot_be_started_raise_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    monkeypatch.setattr(ex.Workers, "_open", [])
    with refused(ex.StateError, "workers must be open", "ex.Workers"):
        spread(*branches(1.0, 2.0))
    for wrong in (0, -1, True, 2.5):
        with refused(ex.OperandError, "number of at least 1"):
            ex.Workers(wrong)  # type: ignore[arg-type]
    with refused(ex.RunError, "a Dask scheduler must answer"):
        ex.Workers("tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with refused(ex.StateError, "distributed must be installed", "explorer-graphs[dask]"):
        ex.Workers(2)


def test_only_this_machine_can_reach_the_workers(workers: ex.Workers) -> None:
    """Scheduler, workers, nannies and their HTTP servers listen only on the loopback address."""
    ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
    with ex.Workers(1, processes=False):
        heard = [c.laddr.ip for process in ours for c in process.net_connections(kind="inet") if c.status == "LISTEN"]
    assert len(heard) > 6
    assert {*heard} == {"127.0.0.1"}


def test_importing_explorer_imports_no_dask() -> None:
    program = "import sys, explorer as ex; ex.evaluate(ex.tensor([1.0]) + 1, executor='dag'); ex.train, ex.parallelize;"
    program += "sys.exit(any(name.split('.')[0] in ('dask', 'distributed', 'cloudpickle') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_script_that_opens_workers_without_a_main_guard_raises_an_error(tmp_path: Path) -> None:
    """Each process imports the script again, and would open more workers without a guard."""
    script = tmp_path / "script.py"
    script.write_text("import explorer as ex\nprint(len(ex.Workers(1)))\n")
    run = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "RunError: 1 process of ex.Workers(1): " in run.stderr
    assert 'below: if __name__ == "__main__":' in run.stderr
    guarded = 'if __name__ == "__main__":\n    with ex.Workers(1) as workers:\n        print(len(workers))\n'
    script.write_text(f"import explorer as ex\n{guarded}")
    run = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "1\n")
