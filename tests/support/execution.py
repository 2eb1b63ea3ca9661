"""Execution of a planned program, kernel by kernel on the calling thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.plan.planner import Plan
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program


def without_reuse(planned: Plan) -> Plan:
    """Return a plan in which every result has its own memory."""
    own = [place._replace(buffer=-1, offset=-1, reuses=None) for place in planned.schedule.placements]
    return replace(planned, schedule=replace(planned.schedule, placements=tuple(own)))


def run(planned: Plan) -> list[Any]:
    """Return the values of the roots, computed kernel by kernel."""
    program = Program(planned)
    run_simple(program)
    return program.take()
