"""Devices: memory, copies between any two kinds, synchronization, random numbers, and how plans use them."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from tests.support.accelerator import Accelerator, AcceleratorArray, accelerator, second_accelerator
from tests.support.refusals import refused

X: Array = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    """Return the list of all later requests to the accelerators."""
    gc.collect()
    Accelerator.log.clear()
    yield Accelerator.log
    Accelerator.log.clear()


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("device", [ex.cpu, accelerator], ids=lambda device: device.name)
def test_bytes_are_copied_between_any_two_kinds_of_memory(device: ex.Device) -> None:
    """Bytes are copied to a device, to another one, and back, and no other bytes change."""
    values = np.arange(32, dtype=np.uint8)
    for other in (ex.cpu, accelerator, second_accelerator):
        there, back = device.put(values), np.zeros(40, np.uint8)
        onward = other.put(np.zeros(32, np.uint8))
        device.copy_bytes(there, onward, 20, other)
        other.copy_bytes(onward, back, 32, ex.cpu)
        np.testing.assert_array_equal(back, [*range(20), *[0] * 20])
    with refused(ex.OperandError, "33 bytes to copy, and a source of 32", "nbytes=32"):
        device.copy_bytes(there, back, 33, ex.cpu)
    with refused(ex.OperandError, "a target of 8"):
        device.copy_bytes(there, back[:8], 9, ex.cpu)


@pytest.mark.spec("C-1")
def test_invalid_device_numbers_raise_an_error() -> None:
    for nbytes in (-1, "8", 2.5):
        with refused(ex.OperandError, f"new({nbytes!r})", "0 or more"):
            ex.cpu.new(nbytes)  # type: ignore[arg-type]
    with refused(ex.OperandError, "seed=-1", "0 or more"):
        ex.cpu.rng(-1)


@pytest.mark.spec("C-1")
def test_copies_of_arrays_keep_shape_and_dtype(log: list[str]) -> None:
    """Typed copies use byte copies, also for strided arrays; a device may have a faster way to another one."""
    there = accelerator.put(X)
    target = np.zeros((3, 2), np.float32)
    accelerator.copy(there.T, target, ex.cpu)
    np.testing.assert_array_equal(target, X.T)
    log.clear()
    onward = second_accelerator.empty((2, 3), np.dtype(np.float32))
    accelerator.copy(there, onward, second_accelerator)
    assert log == ["new 24", "direct 24"]
    for wrong in (np.zeros((3, 2), np.float32), np.zeros((2, 3))):
        with refused(ex.OperandError, "the same shape and dtype", "device.empty"):
            accelerator.copy(there, wrong, ex.cpu)
    with refused(ex.OperandError, "contiguous", "device.copy"):
        ex.cpu.copy_bytes(X.T, np.zeros(24, np.uint8), 24)


@pytest.mark.spec("C-1")
def test_tensors_and_operations_have_a_device() -> None:
    x = ex.tensor(X, device=accelerator)
    y = ex.tanh(x) + 1
    assert (x.device, y.device, y.to_device(ex.cpu).device) == (accelerator, accelerator, ex.cpu)
    assert ex.Matrix(X, device=accelerator).device is accelerator
    assert repr(y.type) == "2×3 float32 on accelerator"


@pytest.mark.spec("C-1")
def test_a_program_runs_on_the_device_of_its_operands(log: list[str]) -> None:
    """Only results leave the device; memory is freed after a value's last reader."""
    x = ex.tensor(X, device=accelerator)
    plan = ex.EvalPlan(record="off")
    handle = plan.register(ex.softmax(x @ x.T, 1).sum())
    log.clear()
    plan.eval()
    np.testing.assert_allclose(handle.data(), 2, rtol=1e-6)
    assert [line for line in log if line.startswith("read")] == ["read 4"]
    assert [line for line in log if line.startswith("write")] == []
    assert log.count("finish") == 1
    assert sorted(line for line in log if line[0] == "n") == sorted(
        line.replace("delete", "new") for line in log if line[0] == "d"
    )


@pytest.mark.spec("C-1")
def test_copies_are_nodes_of_the_plan() -> None:
    """A copy is recorded, drawn, priced and timed like any operation; two consecutive copies become one."""
    x = ex.tensor(X)
    plan = ex.EvalPlan(record="values")
    handle = plan.register((ex.tanh(x).to_device(accelerator) * 2).to_device(second_accelerator).to_device(ex.cpu))
    plan.eval()
    np.testing.assert_array_equal(handle.data(), np.tanh(X) * 2)
    recording = plan.recording
    labels = [recording.label(kernel.nodes[-1]) for kernel in recording.schedule.kernels]
    assert [label for label in labels if label.startswith("to ")] == ["to accelerator", "to cpu"]
    assert "RoundTripCopy" in {decision.rule for decision in recording.decisions}
    places = {recording.types[recording.nodes.type[node]].device for node in range(len(recording.nodes.label))}
    assert {"cpu", "accelerator"} <= places
    assert "to accelerator" in plan.explain()


class Histogram(ex.Elementwise):
    """An operation whose kernel needs NumPy's memory."""

    portable = False
    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        return np.copyto(out, np.histogram(x, 3)[0][: out.size])


@pytest.mark.spec("C-1")
def test_operands_on_two_devices_and_missing_kernels_raise_an_error() -> None:
    here, there = ex.tensor(X), ex.tensor(X, device=accelerator)
    with refused(ex.OperandError, "accelerator and cpu", "to_device"):
        here + there
    np.testing.assert_array_equal(ex.evaluate(there * X), X * X)  # an array belongs to no device
    np.testing.assert_array_equal(ex.evaluate(X[0] + there), X[0] + X)
    with refused(ex.DeclarationError, "histogram on accelerator", "kernel", "to_device"):
        ex.evaluate(Histogram()(there))


@pytest.mark.spec("C-1")
def test_kernels_run_on_the_device_and_results_are_synchronized(log: list[str]) -> None:
    seen: list[int] = []

    @ex.kernel("gelu", on=second_accelerator)
    def gelu(operation: ex.Operation, out: AcceleratorArray, x: AcceleratorArray) -> Any:
        seen.append(Accelerator.inside)
        return np.multiply(x, 2, out=out)

    x = ex.tensor(X, device=second_accelerator)
    try:
        np.testing.assert_array_equal(ex.evaluate(ex.gelu(x)), 2 * X)
        Accelerator.fails = True
        with pytest.raises(ex.RunError, match="second accelerator did not finish"):
            ex.evaluate(ex.gelu(x))
    finally:
        Accelerator.fails = False
        del ex.kernels[ex.operation("gelu"), second_accelerator]
    assert seen == [1, 1]
    assert Accelerator.inside == 0


@pytest.mark.spec("C-1", headline=True)
@pytest.mark.parametrize("device", [ex.cpu, accelerator], ids=lambda device: device.name)
def test_the_cpu_has_the_interface_of_other_devices(device: ex.Device) -> None:
    """Allocate, copy, synchronise and draw random numbers through one interface on every device."""
    memory = device.new(100)
    assert memoryview(memory).nbytes == 100
    if device is ex.cpu:
        assert memory.ctypes.data % 64 == 0
    device.delete(memory)
    with device.switch_to_device():
        there, back, onward = device.put(X), np.zeros_like(X), np.zeros(X.nbytes, np.uint8)
        assert device.finish() is True
    device.copy(there, back, ex.cpu)
    np.testing.assert_array_equal(back, X)
    device.copy_bytes(device.put(np.arange(24, dtype=np.uint8)), onward, 20, ex.cpu)
    assert onward.tolist() == [*range(20), 0, 0, 0, 0]
    first, second = device.rng(3), device.rng(3)
    np.testing.assert_array_equal(first.normal(size=4), second.normal(size=4))
    with refused(ex.OperandError, "seed"):
        device.rng(1.5)  # type: ignore[arg-type]


def test_the_error_of_an_unknown_device_lists_the_existing_ones() -> None:
    with pytest.raises(ex.UnknownNameError, match=re.escape("unknown device 'acelerator'")) as caught:
        ex.device("acelerator")
    assert "accelerator" in caught.value.rule
