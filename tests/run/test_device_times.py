"""Kernel times on an asynchronous device: recorded times include the kernel's work."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.plan_cache import cache

WORK = 0.004
"""seconds that each kernel works on the device after its start"""


class Queue(ex.Device):
    """Device that does its work when it is synchronized."""

    pending, waits = 0, 0

    def finish(self) -> bool:
        Queue.waits += 1
        time.sleep(WORK * Queue.pending)
        Queue.pending = 0
        return True


queue = Queue("queue")


@ex.kernel("tanh", "exp", on=queue)
def start(operation: Any, out: Any, x: Any) -> Any:
    """Compute a function that the device reports as asynchronous work."""
    Queue.pending += 1
    return operation.kernel(out, x)


def evaluated(**options: Any) -> ex.EvalPlan:
    """Return a plan after its run, with two kernels on the device, a copy between them, and one on the CPU."""
    plan = ex.EvalPlan(**options)
    for size in (6, 7):
        x = ex.tensor(np.linspace(-1, 1, size), device=queue)
        plan.register(ex.exp(ex.tanh(x))[::-1])
        plan.register(ex.tanh(x).to_device(ex.cpu).sum())
    Queue.waits = 0
    return plan.eval()


def micros_on_device(plan: ex.EvalPlan) -> list[float]:
    """Return the recorded times of the kernels that work on the device."""
    run, kernels = plan.recording.run, plan.planned.schedule.kernels
    assert run is not None
    works = [any(node.operation.name in ("tanh", "exp") for node in kernel.nodes) for kernel in kernels]
    return [step.micros for step in run.steps if works[step.kernel]]


@pytest.mark.spec("C-1", "P-11")
@pytest.mark.parametrize("executor", ["simple", "dag", "async"])
def test_the_time_of_a_kernel_includes_its_work(executor: str) -> None:
    """Test first runs, and a view's warm runs; a run of a cached program waits once and records no times."""
    cache.clear()
    plans = [evaluated(executor=executor), evaluated(executor=executor, record="values")]
    again = evaluated(executor=executor)
    assert again.reused
    assert Queue.waits == 1
    assert again.recording.run is None
    again.explore()
    for plan in (*plans, again):
        times = micros_on_device(plan)
        assert len(times) >= 2
        assert min(times) >= WORK * 1e6


@pytest.mark.spec("C-1")
def test_a_plan_that_records_nothing_waits_once() -> None:
    """It waits at the end of the run, even if the program ran with times before."""
    evaluated()
    for _ in range(3):
        evaluated(record="off")
        assert Queue.waits == 1


@pytest.mark.spec("C-16")
def test_the_profile_and_the_log_of_a_net_include_the_work(caplog: pytest.LogCaptureFixture) -> None:
    """Other runs of the same program wait once."""
    net = ex.Net("two")
    net.input("x", (2,))
    net.output(net.Tanh("x", "y"))
    net.to_device("queue")
    assert all(row.micros >= WORK * 1e6 for row in net.profile([1.0, -1.0]).rows)
    with caplog.at_level(logging.DEBUG, "explorer.net"):
        net.run([1.0, -1.0])
    times = [float(micros) for micros in re.findall(r"([\d.]+) µs", caplog.text)]
    assert times
    assert min(times) >= WORK * 1e6
    Queue.waits = 0
    net.run([1.0, -1.0])
    assert Queue.waits == 1


@pytest.mark.gpu
@pytest.mark.spec("C-1")
def test_the_time_of_a_product_on_a_gpu_includes_its_arithmetic() -> None:
    """A call takes about 20 µs, in which no GPU multiplies 2.7e11 numbers."""
    x = ex.tensor(np.full((5120, 5120), 1e-3, np.float32), device=ex.device("cuda"))
    plan = ex.EvalPlan()
    plan.register((x @ x) @ x)
    run = plan.eval().recording.run
    assert run is not None
    assert sorted(step.micros for step in run.steps)[-2] > 200


class Unfinished(ex.Device):
    """Device whose work fails after its start."""

    def finish(self) -> bool:
        return False


@pytest.mark.spec("C-1")
def test_a_failing_device_is_named_when_it_is_synchronized() -> None:
    place = Unfinished("unfinished")
    ex.kernel("tanh", on=place)(lambda operation, out, x: operation.kernel(out, x))
    plan = ex.EvalPlan()
    plan.register(ex.tanh(ex.tensor([1.0, 2.0], device=place)))
    with pytest.raises(ex.RunError, match="the device unfinished did not finish"):
        plan.eval()


@ex.kernel("sinh", on=queue)
def fail(operation: Any, out: Any, x: Any) -> Any:
    raise ValueError("no such work")


@pytest.mark.spec("C-1", "C-10")
@pytest.mark.parametrize("record", ["times", "off"])
def test_the_failing_operation_in_a_fused_kernel_is_named(record: str) -> None:
    """The error may occur when the kernel frees its operand, or when it is synchronized."""
    x = ex.tensor(np.linspace(-1, 1, 6), device=queue)
    plan = ex.EvalPlan(record=record)
    plan.register(ex.exp(ex.sinh(ex.tanh(x)[::-1])))
    with pytest.raises(ex.RunError, match=r"^sinh of .* \(in the kernel sinh · exp\)"):
        plan.eval()
