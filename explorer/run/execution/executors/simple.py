"""Execution of kernels in sequence, in the order of the schedule.

This executor is the default, and the reference for all others. Its loop calls runners and stores their results. After
two runs on one thread, a list of bound calls (``BoundRun`` in program.py) replaces the loop.
"""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter_ns

import numpy as np

from explorer.core.errors import RunError
from explorer.core.progress import Progress, ProgressCallback, current_callback
from explorer.run.execution.kernel_failure import failure
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.runtime.thread_pool import single_threaded_products
from explorer.run.runtime.timing import Timing


def run_simple(program: Program, watch: Observer | None = None) -> Timing:
    """Run all kernels in the order of the schedule.

    Times are empty if the program is not ``timed``.
    Floating-point events (division by zero, overflow, NaN) give no warnings. The first failure stops the run and is
    raised as RunError. After an interrupt, the program can run again.
    """
    follow = current_callback()
    times: list[int] = []
    try:
        with np.errstate(all="ignore"), single_threaded_products() if program.single_threaded else nullcontext():
            if watch is None and follow is None:
                _run(program, times)
            else:
                _run_observed(program, times, watch, follow)
    except RunError:
        program.forget()
        raise
    except Exception as error:
        program.forget()
        failed = program.bound.take_failed() if program.bound is not None else None
        index, failed_node = failed or (len(times) - 1, None)
        runner = program.runners[index][0]
        raise failure(program.planned, index, runner, error, failed_node) from error
    except BaseException:
        program.forget()
        raise
    # A kernel starts when the previous one ends, so one clock reading gives both times.
    return Timing(times[:-1], times[1:], [])


def _run(program: Program, times: list[int]) -> None:
    bound = program.bound
    if bound is not None and bound.kernels_bound and bound.is_of(program.runners):
        if program.timed:
            bound.run_timed(times)
        else:
            bound.run()
        return
    values, note = program.values, times.append
    clock = program.clock if program.libraries else perf_counter_ns
    note(clock())
    for runner, slot in program.runners:
        values[slot] = runner(values)
        note(clock())
    program.bind_run()


def _run_observed(program: Program, times: list[int], watch: Observer | None, follow: ProgressCallback | None) -> None:
    """Run all kernels with an observer and a progress callback, neither of which counts in the kernels' times."""
    values, kernels = program.values, program.planned.schedule.kernels
    excluded, clock = 0, program.clock
    times.append(clock())
    for index, (runner, slot) in enumerate(program.runners):
        paused = clock()
        if follow is not None:
            follow(Progress("running", kernels[index].result.operation.label, index, len(kernels)))
        if watch is not None:
            watch.before_kernel(index)
        excluded += clock() - paused
        values[slot] = runner(values)
        paused = clock()
        times.append(paused - excluded)
        if watch is not None:
            watch.after_kernel(index)
            excluded += clock() - paused
