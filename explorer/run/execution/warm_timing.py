"""Warm runs: a program runs again to measure its times when a user looks at them.

The first run is not typical, because it requests memory pages, packs weights and computes constants, and may have cache
misses from summarizing values. Since other processes may interrupt a short run, all kernel times are taken from the
fastest of several runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.plan.planner import Plan
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Timing

_MAX_REPEATED = 1_000_000_000
"""maximum duration in ns of a run that is repeated; nobody should wait twice for a slow run"""
MAX_RUNS, _MAX_TOTAL = 5, 20_000_000
"""number of warm runs, and maximum total ns of all of them except the last, so users do not notice them"""


def warm_timing(
    planned: Plan,
    program: Program | None,
    run: Callable[[Program, Observer | None], Timing],
    inputs: Mapping[Expr, Any],
    timing: Timing,
) -> Timing:
    """Return the times of the fastest of several warm runs of a plan; ``timing`` contains the times of its first run.

    The remarks about the first run are kept.

    ``program`` is the program that has run, if it still exists, and ``run`` is the executor's function. Returns
    ``timing`` itself if the first run was long, or if repeating an operation that is not ``pure`` would have effects.
    """
    kernels = planned.schedule.kernels
    is_long = timing.nanoseconds > _MAX_REPEATED
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
        measured(program)  # this run requests pages, packs weights and computes constants
    runs = [measured(program)]
    while len(runs) < MAX_RUNS and sum(times.nanoseconds for times in runs) < _MAX_TOTAL:
        runs.append(measured(program))
    return min(runs, key=lambda times: times.nanoseconds)._replace(warm=True, notes=timing.notes)
