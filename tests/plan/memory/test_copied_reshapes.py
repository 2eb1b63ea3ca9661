"""Reshapes that copy: the plan predicts which ones do, and allocates memory for their results."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.plan import Options, Plan, plan
from explorer.plan.passes.buffers import Buffers
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.support.accelerator import accelerator
from tests.support.programs import prepared

X = np.arange(24.0).reshape(2, 3, 4)


def computed(planned: Plan) -> list[np.ndarray]:
    program = Program(planned)
    for _ in range(3):
        run_simple(program)
        values = program.take()
    return values


def copies(planned: Plan) -> list[str]:
    return [kernel.result.operation.name for kernel in planned.schedule.kernels if kernel.copies]


@st.composite
def views(draw: st.DrawFn) -> list[Callable[[Any, Any], Any]]:
    """Draw a chain of views as functions of a module (NumPy or explorer) and a value."""
    chain: list[Callable[[Any, Any], Any]] = []
    value = X
    for _ in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from(["reshape", "transpose", "part", "repeat"])):
            case "reshape":
                sizes = draw(st.permutations([size for size in (2, 3, 4, value.size // 24 or 1) if size > 1]))
                total = int(np.prod(sizes))
                shape = tuple(sizes) if total == value.size else (value.size,)
                chain.append(lambda module, x, shape=shape: module.reshape(x, shape))
            case "transpose":
                axes = tuple(draw(st.permutations(range(value.ndim))))
                chain.append(lambda module, x, axes=axes: module.transpose(x, axes))
            case "part":
                spans = tuple(
                    draw(st.sampled_from([slice(None), slice(None, None, -1), slice(1)])) for _ in value.shape
                )
                chain.append(lambda module, x, spans=spans: x[spans])
            case _:
                if value.size > 100:
                    continue
                shape = (2, *value.shape)
                chain.append(lambda module, x, shape=shape: module.broadcast_to(x, shape))
        value = chain[-1](np, value)
    return chain


@pytest.mark.spec("P-8")
@given(views())
def test_the_plan_predicts_which_reshapes_numpy_copies(chain: list[Callable[[Any, Any], Any]]) -> None:
    node, value, expected = ex.tanh(ex.tensor(X)), np.tanh(X), []
    for view in chain:
        shown = view(np, value)
        if not np.may_share_memory(shown, value):
            expected.append("reshape")
        node, value = view(ex, node), shown
    # Rules are off, because they would remove views that cancel each other.
    planned = plan([ex.tanh(node)], Options(without=("simplify", "dedup", "fuse")))
    assert copies(planned) == expected
    (result,) = computed(planned)
    np.testing.assert_array_equal(result, np.tanh(value))


def heads() -> ex.Expr:
    """Return a value that joins its heads as attention does: 512 KiB, copied once."""
    x = ex.tensor(np.ones((256, 8, 32)), name="x")
    return ex.reshape(ex.transpose(ex.tanh(x), (1, 0, 2)), (256, 256))


@pytest.mark.spec("P-8")
def test_the_peak_includes_copies() -> None:
    planned = plan([heads() @ np.ones((256, 1))])
    schedule = planned.schedule
    (index,) = [index for index, kernel in enumerate(schedule.kernels) if kernel.copies]
    assert schedule.placements[index].buffer >= 0
    assert schedule.placements[index].live == 2 * 2**19
    program = Program(planned)
    run_simple(program)
    program.take()
    tracemalloc.start()
    run_simple(program)
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert allocated < 2**16  # all but the result is in the arena
    assert schedule.peak >= 2 * 2**19
    counts = planned.graph.stages[-1].counts
    assert counts["bytes"] == 2 * 2**19 + 2048


@pytest.mark.spec("P-8")
def test_a_copy_is_a_decision() -> None:
    decisions = plan([heads() @ np.ones((256, 1))]).graph.decisions
    (decision,) = [decision for decision in decisions if decision.reason is Buffers.copied]
    assert not decision.applied
    assert decision.facts["size_bytes"] == 2**19
    assert [subject.operation.name for subject in decision.subjects] == ["reshape"]
    assert decision.estimated_cost_us is not None
    assert decision.estimated_cost_us > 100


@pytest.mark.spec("P-8")
def test_channels_last_images_are_copied_when_they_are_flattened_to_rows() -> None:
    rng = np.random.default_rng(0)
    images, filters = (ex.tensor(rng.standard_normal(shape, np.float32)) for shape in ((2, 8, 12, 12), (16, 8, 3, 3)))
    rows = ex.reshape(ex.max_pool2d(ex.relu(ex.conv2d(images, filters)), 2), (2, -1))
    planned, plain = (
        plan([rows @ np.ones((400, 1), np.float32)], Options(without=without)) for without in ((), ("memory_format",))
    )
    assert copies(planned) == ["reshape"]
    assert copies(plain) == []
    np.testing.assert_allclose(computed(planned)[0], computed(plain)[0], rtol=1e-4)


@pytest.mark.spec("P-8", "P-11")
@pytest.mark.parametrize(
    "options",
    [{"executor": "dag", "lanes": 2}, pytest.param({"executor": "dask"}, marks=pytest.mark.soak)],
    ids=["dag", "dask"],
)
def test_executors_agree(options: dict[str, Any]) -> None:
    """Copies are in memory that later results reuse: no executor may reuse it too early."""
    x = np.random.default_rng(1).standard_normal((16, 8, 4))

    def branch(number: int) -> ex.Expr:
        joined = ex.reshape(ex.transpose(ex.tanh(ex.tensor(x + number)), (1, 0, 2)), (16, 32))
        return ex.exp(joined @ ex.transpose(joined)) @ joined

    def expected(number: int) -> np.ndarray:
        joined = np.tanh(x + number).transpose(1, 0, 2).reshape(16, 32)
        return np.exp(joined @ joined.T) @ joined

    held = ex.EvalPlan(without=["batch"], **options)
    handles = [held.register(branch(number)) for number in range(6)]
    with ex.Workers(1) if options["executor"] == "dask" else nullcontext():
        for _ in range(2):
            held.eval()
    for number, handle in enumerate(handles):
        np.testing.assert_allclose(handle.data(), expected(number), rtol=1e-12)


@pytest.mark.spec("P-8", "C-1")
def test_a_copy_on_a_device_is_allocated_there() -> None:
    x = ex.tensor(X, device=accelerator)
    planned = plan([ex.reshape(ex.transpose(ex.tanh(x), (2, 0, 1)), (24,)).sum()])
    assert copies(planned) == ["reshape"]
    result = ex.evaluate(ex.to_device(ex.reshape(ex.transpose(ex.tanh(x), (2, 0, 1)), (24,)), ex.cpu))
    np.testing.assert_array_equal(result, np.tanh(X).transpose(2, 0, 1).reshape(24))


@pytest.mark.spec("P-8")
def test_planning_does_not_call_a_user_defined_view() -> None:
    class TurnedRow(ex.Operation):
        """x reversed."""

        view = True
        nondifferentiable = unbatchable = "a test"
        examples = (ex.Example(ex.real(3)),)

        def infer(self, x: ex.TensorType) -> ex.TensorType:
            return x

        def flops(self, result: ex.TensorType, x: ex.TensorType) -> int:
            return 0

        def kernel(self, out: None, x: Any) -> Any:
            calls.append(x.dtype)
            return x[::-1]

    calls: list[Any] = []
    planned = plan([ex.reshape(TurnedRow()(ex.cumsum(ex.tensor(np.arange(4.0)))), (2, 2))])
    assert calls == []
    assert copies(planned) == []
    np.testing.assert_array_equal(computed(planned)[0], [[6, 3], [1, 0]])


@pytest.mark.spec("P-11", "P-17")
def test_a_copy_takes_time_in_the_simulated_lanes() -> None:
    """The estimate of the order is the sum of the kernels' final prices, one of which includes a copy."""
    x = ex.tensor(np.ones((3, 4)))
    planned = prepared(ex.tanh(ex.transpose(ex.tanh(x)).reshape((3, 4))), lanes=4).planned
    (decision,) = [each for each in planned.graph.decisions if each.code == "nothing_independent"]
    assert any(kernel.copies for kernel in planned.schedule.kernels)
    total = sum(kernel.cost.estimate for kernel in planned.schedule.kernels)
    assert decision.facts["together_us"] == decision.facts["alone_us"] == pytest.approx(total, abs=1e-3)
