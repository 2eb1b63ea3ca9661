"""Bound runs, used from the third run on one thread: the same values, errors and memory as before."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.ir.tiles import scratch, scratch_memory
from explorer.plan import plan
from explorer.run.execution.binding import Binding
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program


def parameter(*shape: int) -> Any:
    return Parameter(ex.TensorType(shape, np.dtype(np.float32)), "x")()


def program_of_all_runners() -> tuple[Program, Any, np.ndarray]:
    """Return a product with an epilogue, a chain, a reduction, a view and a row reduction, in the caller's memory."""
    x, memory = parameter(6, 4), np.zeros((6, 4), np.float32)
    weight = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    hidden = ex.relu(x @ weight + np.ones(3, np.float32))
    scores = ex.log_softmax(hidden)
    loss = -(scores * hidden).sum(-1).mean()
    turned = ex.tanh(scores.T * 2 + loss)
    chosen = ex.where(hidden > 0, scores, 0).sum(0)
    # all but the last are in the program's memory; the last is returned
    program = Program(
        plan([ex.concatenate([turned @ hidden, ex.reshape(chosen, (1, 3))])]), Binding(memory={x: memory})
    )
    return program, x, memory


def run(program: Program) -> list[np.ndarray]:
    run_simple(program)
    return [np.array(value) for value in program.take()]


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((6, 4)).astype(np.float32)


def test_bound_runs_compute_the_same_bits() -> None:
    program, _, memory = program_of_all_runners()
    for seed in range(6):
        memory[...] = drawn(seed)
        fresh, _, other = program_of_all_runners()
        other[...] = memory
        for value, expected in zip(run(program), run(fresh), strict=True):
            assert value.tobytes() == expected.tobytes()
    assert program.bound is not None
    assert program.bound.kernels_bound == len(program.runners) - 1 > 5
    assert program.bound.is_of(program.runners)


def test_a_reshape_that_copies_is_bound_with_its_readers() -> None:
    """This occurs in attention, where heads are joined before a product."""
    x, memory = parameter(6, 4), np.zeros((6, 4), np.float32)
    heads = ex.transpose(ex.reshape(ex.tanh(x), (6, 2, 2)), (1, 0, 2))
    joined = ex.reshape(heads, (6, 4))
    program = Program(plan([(joined @ np.eye(4, dtype=np.float32)).sum(1)]), Binding(memory={x: memory}))
    for seed in range(5):
        memory[...] = drawn(seed)
        (value,) = run(program)
        expected = np.tanh(memory).reshape(6, 2, 2).transpose(1, 0, 2).reshape(6, 4).sum(1)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    assert program.bound is not None
    (copied,) = [index for index, kernel in enumerate(program.planned.schedule.kernels) if kernel.copies]
    assert program.bound.kernels_bound >= copied + 2


def test_a_reshape_of_a_value_in_column_major_order_copies_in_each_run() -> None:
    """Only the run knows the strides of a caller's array."""
    x, memory = parameter(6, 4), np.zeros((6, 4), np.float32, order="F")
    program = Program(plan([ex.tanh(ex.reshape(x, (24,)))]), Binding(memory={x: memory}))
    for seed in range(4):
        memory[...] = drawn(seed)
        (value,) = run(program)
        np.testing.assert_allclose(value, np.tanh(drawn(seed)).reshape(24), rtol=1e-6)


@pytest.mark.parametrize("view", [lambda joined: joined, lambda joined: joined[:3].T], ids=["whole", "view"])
def test_a_returned_copy_is_another_array_in_each_run(view: Any) -> None:
    x, memory = parameter(6, 4), np.zeros((6, 4), np.float32)
    program = Program(plan([view(ex.reshape(x.T, (6, 4)))]), Binding(memory={x: memory}))
    values = []
    for seed in range(4):
        memory[...] = drawn(seed)
        run_simple(program)
        values += program.take()
    for seed, value in enumerate(values):
        np.testing.assert_array_equal(value, view(drawn(seed).T.reshape(6, 4)))


def test_another_thread_or_scratch_memory_binds_again() -> None:
    program, _, memory = program_of_all_runners()
    memory[...] = drawn(0)
    expected = [run(program) for _ in range(3)][-1]
    values: list[list[np.ndarray]] = []

    def work() -> None:
        scratch("another size", [((1 << 16,), np.uint8)], list)
        values.extend(run(program) for _ in range(4))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before = scratch_memory()
    scratch("a larger size", [((before.size + 1,), np.uint8)], list)
    assert scratch_memory() is not before
    values.extend(run(program) for _ in range(4))
    assert len(values) == 8
    for results in values:
        for value, wanted in zip(results, expected, strict=True):
            assert value.tobytes() == wanted.tobytes()


class Fragile(ex.Elementwise):
    """x, unless an element is above 3."""

    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        if (x > 3).any():
            raise ValueError("above 3")
        np.copyto(out, x)
        return out

    def gradient(self, g: Any, y: Any, x: Any) -> tuple[Any]:
        return (g,)


@pytest.mark.parametrize("fused", [True, False])
def test_a_failing_bound_step_is_named_each_time_and_the_next_run_is_correct(fused: bool) -> None:
    x, memory = parameter(6, 4), np.zeros((6, 4), np.float32)
    inner = x * 2
    y = ex.fragile(inner) + 1 if fused else ex.fragile(ex.softmax(x) * 0 + inner)
    program = Program(plan([y]), Binding(memory={x: memory}))
    expected = [run(program)[0] for _ in range(3)][-1]
    for _ in range(2):
        memory[0, 0] = 5
        with pytest.raises(ex.RunError, match=r"^fragile of \(6×4 float32\).*above 3"):
            run_simple(program)
        memory[0, 0] = 0
        assert (run(program)[0] == expected).all()


def test_a_bound_run_keeps_only_what_an_unbound_run_keeps() -> None:
    program, _, memory = program_of_all_runners()
    memory[...] = drawn(0)
    for _ in range(2):
        run(program)
    after = [value is None for value in program.values]
    run(program)
    assert [value is None for value in program.values] == after


def test_replaced_runners_are_called() -> None:
    program, _, memory = program_of_all_runners()
    memory[...] = drawn(0)
    for _ in range(3):
        run(program)
    calls = []

    def counted(values: Any, runner: Any = program.runners[-1][0]) -> Any:
        calls.append(1)
        return runner(values)

    program.runners = [*program.runners[:-1], (counted, program.runners[-1][1])]
    for _ in range(4):
        run(program)
    assert len(calls) == 4
