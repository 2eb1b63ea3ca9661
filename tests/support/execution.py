"""The execution of a planned program, kernel by kernel on the calling thread."""

from __future__ import annotations

from typing import Any

from explorer.plan.planner import Plan
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program


def run(planned: Plan) -> list[Any]:
    """The values of the roots, computed kernel by kernel."""
    program = Program(planned)
    run_simple(program)
    return program.take()
