"""Memory of a schedule: results are views of one arena, and a second run allocates no intermediates."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import explorer as ex
from assets import seeded
from explorer.core.types.tensor_type import TensorType
from explorer.formats import pnnx
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.plan import Options, plan
from explorer.plan.options import Kernels
from explorer.plan.passes import Inline
from explorer.plan.schedule.schedule import ALIGNMENT
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.runtime import memory as memory_module
from explorer.run.runtime.memory import Memory

MODELS = Path(__file__).parents[3] / "assets" / "models"


def test_results_are_views_of_the_arena_at_their_offsets() -> None:
    a = ex.tensor(np.ones((8, 8)))
    schedule = plan([(ex.sum(a @ a, axis=0) @ a).sum()]).schedule
    memory = Memory(schedule)
    assert memory.arena.nbytes == schedule.arena
    assert memory.arena.ctypes.data % ALIGNMENT == 0
    steps = [*zip(schedule.kernels, schedule.placements, strict=True)]
    placed = [(kernel, placement) for kernel, placement in steps if placement.offset >= 0]
    assert len(placed) >= 2
    for kernel, placement in placed:
        array = memory.result(kernel, placement)
        assert array.ctypes.data == memory.arena.ctypes.data + placement.offset
        assert (array.shape, array.dtype) == (kernel.result.type.shape, kernel.result.type.dtype)
    (root,) = [(kernel, placement) for kernel, placement in steps if kernel.result is schedule.roots[0]]
    assert memory.result(*root) is None
    assert memory.scratch(*root) is None


@pytest.mark.spec("P-8")
def test_an_unopened_call_uses_the_scratch_memory_of_its_caller() -> None:
    """Its arena is planned as a part of the surrounding graph's."""

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return ex.tanh(a @ a) @ a

    a = ex.tensor(np.random.default_rng(0).normal(size=(16, 16)))
    y = (f(ex.sin(a)) @ f(a)).sum()
    planned = plan([y], Options(inline=Inline(0), without=("batch",)))
    program = Program(planned)
    calls = [kernel for kernel in planned.schedule.kernels if kernel.cost.scratch]
    assert len(calls) == 2
    inner = list(program._closed.values())
    assert all(np.shares_memory(each.memory.arena, program.memory.arena) for each in inner)
    run_simple(program)
    np.testing.assert_allclose(program.take()[0], ex.evaluate(y))


@pytest.mark.spec("P-8")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_a_second_run_allocates_no_intermediate(name: str) -> None:
    """For ResNet-18 and MobileNetV2, NumPy allocates less than one of the larger intermediates."""
    definition = pnnx.read(MODELS / f"{name}.pnnx.param")
    held = [weight for operator in definition.operators for weight in operator.weights.values()]
    net = Net(replace(definition, weights={each.key: seeded.weight(each.key, each.shape) for each in held}), TABLE)
    given = seeded.given("input0", (2, 3, 64, 64), "float32", 0)
    with threadpool_limits(1, "blas"):  # further ones add scratch memory and NumPy's buffers
        first = net.run(given)
        allocated = _allocated(lambda: net.run(given))
    np.testing.assert_array_equal(first, net.run(given))
    schedule = net.plan((2, 3, 64, 64)).planned.schedule
    assert allocated < 0.5 * max(kernel.cost.bytes for kernel in schedule.kernels)


@pytest.mark.spec("P-8")
@pytest.mark.parametrize("without", [(), ("fuse",)])
@pytest.mark.parametrize("roots", ["blocks", "sums", "products"])
def test_a_run_uses_the_planned_memory(roots: str, without: tuple[str, ...]) -> None:
    """NumPy allocates the planned peak, including the arena, within its own 64 KB buffers and a page per kernel."""
    random = np.random.default_rng(0)

    def drawn(*shape: int) -> ex.Expr:
        return ex.tensor(random.normal(size=shape).astype(np.float32))

    h = x = drawn(256, 128)
    for _ in range(3):
        h = h + ex.relu((h - h.mean(axis=1, keepdims=True)) @ drawn(128, 128))
    asked = {
        "blocks": [h],
        "sums": [(ex.tanh(x * 2) + 1).sum(axis=1), ex.softmax(x, axis=0)],
        "products": [ex.cast(x @ drawn(128, 300), "float64"), ex.exp(x @ drawn(128, 200)) @ drawn(200, 10)],
    }[roots]
    planned = plan(asked, Options(without=without))
    results: list[int] = []

    def measure() -> None:  # on a thread without working memory
        gc.collect()
        tracemalloc.start()
        program = Program(planned)
        before = tracemalloc.get_traced_memory()[0] - program.memory.arena.nbytes
        tracemalloc.reset_peak()
        run_simple(program)
        results.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join()
    slack = (64 << 10) + (4 << 10) * len(planned.schedule.kernels)
    assert planned.schedule.peak - slack <= results[0] <= planned.schedule.peak + slack


def _allocated(run: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kernels", ["numpy", "native"])
def test_memory_of_a_large_result_is_used_again(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is stored in the memory of a previous one if neither it nor any view of it is left."""
    monkeypatch.setattr(memory_module, "_LARGE", 1 << 20)
    monkeypatch.setattr(memory_module, "_last_block", memory_module._LastBlock())
    x = ex.tensor(np.ones(1 << 19, np.float32))
    planned = plan([abs(x * 2 - 5) * 3], Options(kernels=kernels))
    programs = [Program(planned), Program(planned)]

    def run(program: Program) -> Any:
        run_simple(program)
        (result,) = program.take()
        np.testing.assert_array_equal(result, 9)
        return result

    result = run(programs[0])
    address, view = result.ctypes.data, result[5:7]
    del result
    second = run(programs[0])
    assert not np.shares_memory(view, second)
    np.testing.assert_array_equal(view, 9)
    del view
    assert run(programs[1]).ctypes.data == address  # another program uses it too


def test_one_deleted_block_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "_LARGE", 1 << 20)
    monkeypatch.setattr(memory_module, "_last_block", memory_module._LastBlock())

    def allocated(size: int) -> Any:
        return memory_module.allocate(TensorType((size,), np.dtype(np.float32)))

    def work() -> None:
        arrays = [allocated(size) for size in (1 << 19, 1 << 18, 1 << 19, 1 << 20)]
        arrays.clear()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < (4 << 20) + (1 << 17)
        allocated((1 << 18) - 1)  # not large, so that the block remains
        assert len(memory_module._last_block._kept) == 1
        other = allocated(1 << 18)
        assert tracemalloc.get_traced_memory()[0] < (1 << 20) + (1 << 17)
        del other

    _allocated(work)
