"""One kernel after the other, in the scheduled order."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

import numpy as np

from explorer.core.errors import ExplorerError, RunError
from explorer.plan.schedule import Kernel
from explorer.run.program import Program


def run_simple(program: Program, before: Callable[[int], None] | None = None) -> list[int]:
    """Run all kernels; returns the times in ns: the start, then the end of each kernel.

    Floating-point events (division by zero, overflow, NaN) are values, not warnings. The first failure stops the
    rest and is raised as RunError; an interrupt leaves the program ready for another run.
    """
    values = program.values
    times = [perf_counter_ns()]
    note = times.append
    index = 0
    try:
        with np.errstate(all="ignore"):
            if before is None:
                for runner, slot in program.runners:
                    values[slot] = runner(values)
                    note(perf_counter_ns())
            else:
                for index, (runner, slot) in enumerate(program.runners):
                    before(index)
                    values[slot] = runner(values)
                    note(perf_counter_ns())
    except Exception as error:
        failed = program.planned.schedule.kernels[len(times) - 1]
        program.forget()
        raise failure(failed, error, program) from error
    except BaseException:
        program.forget()
        raise
    return times


def failure(kernel: Kernel, error: Exception, program: Program) -> RunError:
    """The error of a kernel that failed, with the operation, its operands' types, and the user's line."""
    node = kernel.result
    inputs = program.planned.graph.inputs
    given = ", ".join([repr(operand.type) for operand in inputs[node.uid]])
    names = " · ".join([member.operation.label for member in kernel.nodes])
    place = node.place
    where = f" recorded at {place.where} line {place.line}: {place.text}" if place is not None else ""
    rule, fix = (error.rule, error.fix) if isinstance(error, ExplorerError) else ("", "")
    return RunError(f"{names} of ({given}){where}: {type(error).__name__}: {error}", rule=rule, fix=fix)
