"""Bound runs: the kernels of a program as one list of calls without arguments, over arrays that stay where they are.

A training step, or any program that runs again and again on small arrays, spends as much time between the calls of
NumPy as in them: each kernel is a runner, which runs tasks, which run steps. Their decisions are the same in each run,
so that after two runs on one thread only the calls are left. A kernel that must decide anew in each run is called as a
whole.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from time import perf_counter_ns

from explorer.core.ir.expr import Expr
from explorer.core.ir.tiles import scratch_memory
from explorer.run.kernels.runners import BoundStep, Runner, Values, copy_into


class BoundRun:
    """Calls of all kernels in scheduled order, for the thread that binds them.

    Made right after a run, when ``values`` holds the results. Those of bound kernels stay there, in memory that is the
    same in every run.
    """

    def __init__(self, runners: Sequence[tuple[Runner, int]], values: Values) -> None:
        self._failed: Expr | None = None
        self.kernels_bound = 0
        self._runners = runners
        self._kernels: list[list[BoundStep]] = []
        for runner, slot in runners:
            bind = getattr(runner, "bound_steps", None)
            steps = None if bind is None else bind()
            if steps is None:
                steps = [(functools.partial(_store, runner, values, slot), None, None)]
            else:
                self.kernels_bound += 1
            self._kernels.append(steps)
        # Registers lie in the scratch memory of the thread, each time in the same.
        self._memory = scratch_memory()

    def is_of(self, runners: Sequence[tuple[Runner, int]]) -> bool:
        """Whether this thread may run it in place of these runners: they and its scratch memory are those bound."""
        return self._runners is runners and self._memory is scratch_memory()

    def take_failed(self) -> Expr | None:
        """Return the operation that has just raised, and forget it; None if its kernel knows it itself."""
        failed, self._failed = self._failed, None
        return failed

    def run(self, times: list[int]) -> None:
        """Run all kernels; append the time of the beginning, and of the end of each."""
        note = times.append
        step: BoundStep | None = None
        note(perf_counter_ns())
        try:
            for kernel in self._kernels:
                for step in kernel:
                    call, target, _ = step
                    value = call()
                    if value is not target and target is not None:
                        copy_into(target, value)
                note(perf_counter_ns())
        except Exception:
            self._failed = None if step is None else step[2]
            raise


def _store(runner: Runner, values: Values, slot: int) -> None:
    values[slot] = runner(values)
