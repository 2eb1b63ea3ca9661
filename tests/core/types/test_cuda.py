"""CUDA devices: an error with a fix without hardware; tests with a stand-in for CuPy, and on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.device import _devices
from tests.support.accelerator import AcceleratorArray, accelerator
from tests.support.refusals import refused


class DriverError(RuntimeError):
    """CuPy's CUDARuntimeError."""


def _stand_in(gpus: int, is_broken: bool = False) -> Any:
    """Return the part of CuPy that a device uses, over the arrays of the tests' accelerator."""

    class Array(AcceleratorArray):
        def set(self, values: Any) -> None:
            accelerator.write(self, values)

    class Gpu(nullcontext[None]):
        def __init__(self, number: int) -> None:
            super().__init__()
            assert 0 <= number < gpus

        def synchronize(self) -> None:
            if is_broken:
                raise DriverError("an illegal memory access was encountered")

    def count() -> int:
        if not gpus:
            raise DriverError("cudaErrorNoDevice")
        return gpus

    return SimpleNamespace(
        empty=lambda shape, dtype: Array(np.empty(shape, dtype)),
        asnumpy=lambda array: np.array(array._held),
        cuda=SimpleNamespace(Device=Gpu, runtime=SimpleNamespace(getDeviceCount=count, CUDARuntimeError=DriverError)),
        random=SimpleNamespace(Generator=np.random.Generator, Philox4x3210=np.random.Philox),
    )


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    held = {name: device for name, device in _devices.items() if name.startswith("cuda")}
    for name in held:
        del _devices[name]
    yield
    for name in [name for name in _devices if name.startswith("cuda")]:
        del _devices[name]
    _devices.update(held)


@pytest.mark.spec("C-1")
def test_without_cupy_or_a_gpu_an_error_contains_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with refused(ex.StateError, "'cuda'", "CuPy must be installed", "pip install 'explorer-graphs[cuda]'"):
        ex.device("cuda")
    monkeypatch.setitem(sys.modules, "cupy", _stand_in(0))
    with refused(ex.StateError, "cudaErrorNoDevice", "CUDA must find a GPU"):
        ex.device("cuda")
    monkeypatch.setitem(sys.modules, "cupy", _stand_in(2))
    with refused(ex.StateError, "'cuda:2'", "less than 2"):
        ex.device("cuda:2")
    with pytest.raises(ex.UnknownNameError, match="unknown device 'cuda:x'"):
        ex.device("cuda:x")


@pytest.mark.spec("C-1")
def test_programs_run_on_a_stand_in_for_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocations, copies in all directions, kernels, synchronization and random numbers use CuPy's names."""
    monkeypatch.setitem(sys.modules, "cupy", _stand_in(2))
    first, second = ex.device("cuda"), ex.device("cuda:1")
    assert ex.device("cuda") is first
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = ex.tensor(values, device=first)
    y = (ex.tanh(x) @ x.T).to_device(second) + 1
    assert y.device is second
    np.testing.assert_allclose(ex.evaluate(y.to_device(ex.cpu)), np.tanh(values) @ values.T + 1, rtol=1e-6)
    memory = first.new(24)
    first.copy_bytes(x.storage.array, memory, 24)
    np.testing.assert_array_equal(first.read(memory).view(np.float32), values.reshape(-1))
    assert first.rng(1).random() == first.rng(1).random()


@pytest.mark.spec("C-1")
def test_a_gpu_failure_is_logged_and_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", _stand_in(1, is_broken=True))
    x = ex.tensor([1.0], device=ex.device("cuda"))
    with pytest.raises(ex.RunError, match="the device cuda did not finish"):
        ex.evaluate(x + 1)
    assert "illegal memory access" in caplog.text


@pytest.mark.gpu
@pytest.mark.spec("C-1")
def test_a_gpu_computes_trains_and_draws() -> None:
    gpu = ex.device("cuda")
    values = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)

    def loss(device: ex.Device) -> tuple[ex.Expr, list[ex.Expr]]:
        x = ex.tensor(values, device=device)
        total = (ex.softmax(ex.tanh(x @ x.T), 1) ** 2).sum()
        return total, ex.grad(total, [x])

    for result, expected in zip(ex.evaluate(loss(gpu)), ex.evaluate(loss(ex.cpu)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    assert gpu.finish()
    assert gpu.rng(1).random(4).shape == (4,)
