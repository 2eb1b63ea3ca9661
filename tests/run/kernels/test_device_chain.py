"""Fusion and batching on a device: fewer kernels and less memory, the same values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from tests.support.accelerator import Accelerator, AcceleratorArray, accelerator
from tests.support.refusals import refused

X: Array = np.random.default_rng(0).normal(size=(4, 5))


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    Accelerator.log.clear()
    yield Accelerator.log
    Accelerator.log.clear()


def _planned(build: Any, **options: Any) -> tuple[Array, Any]:
    plan = ex.EvalPlan(**options)
    handle = plan.register(build())
    plan.eval()
    return handle.data(), plan.recording


def _kernels(recording: Any) -> list[list[str]]:
    return [[recording.label(node) for node in kernel.nodes] for kernel in recording.schedule.kernels]


@pytest.mark.spec("C-1", "M-E4")
def test_elementwise_operations_on_a_device_are_one_kernel(log: list[str]) -> None:
    """As on the CPU, intermediate values are in registers, which are freed after the kernel."""
    x = ex.tensor(X, device=accelerator)

    def build() -> ex.Expr:
        return ex.exp(-ex.tanh(x * 2 + 1) / 3)

    log.clear()
    fused, recording = _planned(build)
    allocated = [line for line in log if line.startswith("new 160")]
    log.clear()
    apart, _ = _planned(build, without=["fuse"])
    np.testing.assert_array_equal(fused, apart)
    (names,) = [kernel for kernel in _kernels(recording) if len(kernel) > 1]
    assert len(names) == 6
    assert len(allocated) == 2 < len([line for line in log if line.startswith("new 160")]) == 6
    (decision,) = [row for row in recording.decisions if row.rule == "ElementwiseChain"]
    assert decision.verdict == "applied"


@pytest.mark.spec("C-1")
def test_products_and_reductions_on_a_device_are_declined_with_a_reason() -> None:
    x = ex.tensor(X, device=accelerator)
    value, recording = _planned(lambda: ex.tanh(x @ x.T + 1).sum())
    np.testing.assert_allclose(value, np.tanh(X @ X.T + 1).sum())
    assert ["add 1", "tanh"] in _kernels(recording)
    declined = [row for row in recording.decisions if row.code == "device"]
    assert sorted(recording.label(node) for row in declined for node in row.subjects) == ["matmul", "sum"]


@pytest.mark.spec("C-1")
def test_user_defined_kernels_are_fused_and_never_overwrite_their_operands() -> None:
    """A kernel may return its own memory, and may read an operand twice."""
    board = Accelerator("board of a test")
    seen: list[bool] = []

    @ex.kernel("multiply", on=board)
    def multiply(operation: ex.Operation, out: AcceleratorArray, x: AcceleratorArray, y: AcceleratorArray) -> Any:
        seen.append(out is x or out is y)
        np.copyto(out, x)
        return np.multiply(out, y, out=out)

    @ex.kernel("tanh", on=board)
    def tanh(operation: ex.Operation, out: AcceleratorArray, x: AcceleratorArray) -> Any:
        return np.tanh(x)

    x = ex.tensor(X, device=board)
    value, recording = _planned(lambda: ex.tanh(x * x * x) * x)
    np.testing.assert_allclose(value, np.tanh(X**3) * X)
    assert any(len(names) > 1 for names in _kernels(recording))
    assert seen
    assert not any(seen)

    @ex.kernel("tanh", on=board)
    def wrong(operation: ex.Operation, out: AcceleratorArray, x: AcceleratorArray) -> Any:
        return x[:1]

    with refused(ex.RunError, "tanh", "the kernel of tanh on board of a test gave the shapes [(1, 5)]"):
        _planned(lambda: ex.tanh(x * x) * x)


@pytest.mark.spec("C-1", "M-E5")
def test_calls_on_a_device_are_batched_as_on_cpu() -> None:
    @ex.function
    def layer(x: ex.Expr, w: ex.Expr) -> ex.Expr:
        return ex.tanh(x @ w) * 2

    def build(device: ex.Device) -> ex.Expr:
        w = ex.tensor(X.T, device=device)
        return ex.stack([layer(ex.tensor(X[0] + at, device=device), w) for at in range(40)])

    there, recording = _planned(lambda: build(accelerator))
    here, expected = _planned(lambda: build(ex.cpu))
    np.testing.assert_allclose(there, here, rtol=1e-12)
    decisions = [[row.code for row in each.decisions if row.rule == "Batch"] for each in (recording, expected)]
    assert decisions[0] == decisions[1] == ["batched"]
    assert len(_kernels(recording)) < 10
