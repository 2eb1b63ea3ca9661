"""Consecutive compiled kernels run by one call if no times are measured: the same bits, errors and interrupts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.plan import plan
from explorer.plan.options import Options
from explorer.run.execution.binding import Binding
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.native.native_call import NativeCall


class Brittle(ex.Elementwise):
    """x, unless an element is above 3."""

    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        if (x > 3).any():
            raise ValueError("above 3")
        np.copyto(out, x)
        return out

    def gradient(self, g: Any, y: Any, x: Any) -> tuple[Any]:
        return (g,)


def parameter(*shape: int) -> Any:
    return Parameter(ex.TensorType(shape, np.dtype(np.float32)), "x")()


def program_of(build: Any, timed: bool = False) -> tuple[Program, np.ndarray]:
    """Return a program, whose kernels are compiled, of a 64×100 operand in the caller's memory."""
    x, memory = parameter(64, 100), np.zeros((64, 100), np.float32)
    program = Program(plan([build(x)], Options(kernels="native")), Binding(memory={x: memory}))
    program.timed = timed
    return program, memory


def run(program: Program) -> np.ndarray:
    run_simple(program)
    return np.array(program.take()[0])


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((64, 100)).astype(np.float32)


def rows(x: Any, count: int = 3) -> Any:
    """Return ``count`` kernels, of which each normalizes the rows or the columns of the previous one."""
    for index in range(count):
        x = ex.log_softmax(x * 0.5, axis=1) if index % 2 else (x * x).sum(axis=0) * x
    return x


@pytest.mark.spec("K-6")
def test_consecutive_compiled_kernels_are_one_call(compiler: None) -> None:
    program, memory = program_of(rows)
    reference, other = program_of(rows, timed=True)
    for seed in range(5):
        memory[...] = other[...] = drawn(seed)
        assert run(program).tobytes() == run(reference).tobytes()
    bound = program.bound
    assert bound is not None
    assert len([kernel for kernel in program.planned.schedule.kernels if kernel.functions]) == 3
    *calls, (_, (store, _, _)) = bound._steps  # the last kernel returns another array in each run
    assert [isinstance(call, NativeCall) for _, (call, _, _) in calls] == [True]
    assert not isinstance(store, NativeCall)


def test_times_are_measured_only_of_timed_programs(compiler: None) -> None:
    program, memory = program_of(rows, timed=True)
    memory[...] = drawn(0)
    for _ in range(4):
        timing = run_simple(program)
        program.forget()
        assert len(timing.began) == len(timing.ended) == len(program.runners)
        assert all(began <= ended for began, ended in zip(timing.began, timing.ended, strict=True))
    program.timed = False
    assert run_simple(program).ended == []
    program.timed = True
    assert len(run_simple(program).ended) == len(program.runners)


def test_a_call_runs_a_limited_number_of_kernels_so_that_interrupts_are_handled_between_calls(compiler: None) -> None:
    program, memory = program_of(lambda x: rows(x, 80))
    memory[...] = drawn(0)
    for _ in range(4):
        run(program)
    assert program.bound is not None
    assert len(program.runners) == 80
    assert [index for index, _ in program.bound._steps] == [0, 32, 64, 79]


def test_a_kernel_of_numpy_between_compiled_kernels_is_named_if_it_fails(compiler: None) -> None:
    program, memory = program_of(lambda x: rows(ex.brittle(rows(x) * 0 + x)))
    expected = [run(program) for _ in range(4)][-1]
    assert program.bound is not None
    assert len(program.bound._steps) > 2
    for _ in range(2):
        memory[0, 0] = 5
        with pytest.raises(ex.RunError, match=r"^brittle of \(64×100 float32\).*above 3"):
            run(program)
        memory[0, 0] = 0
        assert (run(program) == expected).all()


@pytest.mark.parametrize("is_compiled", [True, False])
def test_blas_keeps_its_threads_if_c_functions_compute_all_products(is_compiled: bool, compiler: None) -> None:
    """Limiting them in each run would take longer than the call of several kernels."""
    weights = ex.tensor(drawn(1).T if is_compiled else np.stack([drawn(1).T] * 2))
    program, memory = program_of(lambda x: ex.relu(x @ weights).sum(axis=-1))
    memory[...] = drawn(0)
    assert program.single_threaded
    for _ in range(3):
        run(program)
    assert program.single_threaded is not is_compiled
