"""One kernel after the other, in the scheduled order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter_ns

import numpy as np

from explorer.core.errors import RunError
from explorer.core.progress import Follower, Progress, follower
from explorer.run.program import Program, failure
from explorer.run.workers import single_threaded_products


def run_simple(program: Program, before: Callable[[int], None] | None = None) -> list[int]:
    """Run all kernels; returns the times in ns: the start, then the end of each kernel.

    ``before`` is called with the number of the kernel about to run; its time and that of who follows are not counted.
    Floating-point events (division by zero, overflow, NaN) are values, not warnings. The first failure stops the
    rest and is raised as RunError; an interrupt leaves the program ready for another run.
    """
    follow = follower()
    if follow is not None:
        before = _told(program, follow, before)
    values = program.values
    times = [perf_counter_ns()]
    note = times.append
    try:
        with np.errstate(all="ignore"), single_threaded_products() if program.shares else nullcontext():
            if before is None:
                for runner, slot in program.runners:
                    values[slot] = runner(values)
                    note(perf_counter_ns())
            else:
                watching = 0
                for index, (runner, slot) in enumerate(program.runners):
                    began = perf_counter_ns()
                    before(index)
                    watching += perf_counter_ns() - began
                    values[slot] = runner(values)
                    note(perf_counter_ns() - watching)
    except RunError:
        program.forget()
        raise
    except Exception as error:
        program.forget()
        raise failure(program, len(times) - 1, error) from error
    except BaseException:
        program.forget()
        raise
    return times


def _told(program: Program, follow: Follower, before: Callable[[int], None] | None) -> Callable[[int], None]:
    """``before``, and who follows the work is told."""
    kernels = program.planned.schedule.kernels
    count = len(kernels)

    def told(index: int) -> None:
        follow(Progress("running", kernels[index].result.operation.label, index, count))
        if before is not None:
            before(index)

    return told
