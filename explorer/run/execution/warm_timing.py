"""Warm runs: a program that is looked at runs once more, only to be measured.

A first run also asks the system for its pages, packs weights and computes constants, which takes several times as long
as the kernels themselves where they are small; and a run that summarises values finds less in the processor's caches.
Neither is the time of a program that is used. Nor is a short run that another process interrupts: of several in a row
the fastest is kept, whole, so that its kernels are still those of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.plan.planner import Plan
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Timing

_LONGEST = 1_000_000_000
"""ns that a run may take to be repeated: nobody should wait twice for a slow run"""
MOST, _TOGETHER = 5, 20_000_000
"""number of warm runs, and ns that all of them but the last may take: nobody should notice them"""


def warm_timing(
    planned: Plan,
    program: Program | None,
    run: Callable[[Program, Observer | None], Timing],
    inputs: Mapping[Expr, Any],
    timing: Timing,
) -> Timing:
    """Return the times of the fastest of some warm runs of a plan whose first run has those of ``timing``.

    ``program`` is the one that has run, if it is still there; ``run`` is the executor's. The first times are returned
    where that run was long, or an operation is not ``pure``, which would have its effect once more.
    """
    kernels = planned.schedule.kernels
    is_long = timing.nanoseconds > _LONGEST
    if not kernels or is_long or not all(node.operation.pure for k in kernels for node in k.nodes):
        return timing
    if timing.warm and timing.of_work:
        return timing

    def measured(repeated: Program) -> Timing:
        repeated.bind(inputs)
        repeated.wait_for_devices(True)
        times = run(repeated, None)
        repeated.forget()
        return times

    if program is None:
        program = Program(planned)
        measured(program)  # asks for pages, packs weights and computes constants
    runs = [measured(program)]
    while len(runs) < MOST and sum(times.nanoseconds for times in runs) < _TOGETHER:
        runs.append(measured(program))
    return min(runs, key=lambda times: times.nanoseconds)._replace(warm=True)
