"""Helpers for checks of exercises, which read facts from recordings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from explorer.core.errors import StateError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.registry import functions
from explorer.course.exercise_base import Finding
from explorer.record import Decision, Kernel, Recording
from explorer.run.evalplan import EvalPlan
from explorer.testing.laws.checks import check


def record(name: str, *operands: Any) -> Expr:
    """Record the operation ``name``, such as "tanh", on ``operands``."""
    recorded: Expr = functions.find(name)(*operands)
    return recorded


def recording_of(plan: EvalPlan) -> Recording:
    """Return the recording of a plan, and prepare the plan first if necessary."""
    try:
        return plan.recording
    except StateError:
        return plan.prepare().recording


def planned(*expressions: Expr, **options: Any) -> Recording:
    """Prepare a plan of expressions, and return its recording."""
    plan = EvalPlan(**options)
    for expression in expressions:
        plan.register(expression)
    return plan.prepare().recording


def replanned(plan: EvalPlan, **options: Any) -> Recording:
    """Prepare a new plan of the same expressions with ``options``, and return its recording."""
    recording_of(plan)
    return planned(*plan.planned.graph.recorded_roots, **options)


def kernels(recording: Recording) -> tuple[Kernel, ...]:
    """Return the kernels of a planned recording."""
    assert recording.schedule is not None
    return recording.schedule.kernels


def kernel_names(recording: Recording) -> str:
    """Return the operations of all kernels as a string, such as ``"add → tanh; sum"``."""
    names = [" → ".join(recording.label(node) for node in kernel.nodes) for kernel in kernels(recording)]
    return "; ".join(names) or "none"


def decisions(recording: Recording, code: str, verdict: str = "") -> list[Decision]:
    """Return the decisions with the code ``code``, and with the verdict ``verdict`` if it is given."""
    return [d for d in recording.decisions if d.code == code and verdict in ("", d.verdict)]


def sentences(recording: Recording, rows: list[Decision]) -> str:
    """Return the reasons of the decisions ``rows`` as one string."""
    return " ".join(recording.reason(decision) for decision in rows)


def labels(recording: Recording, rows: list[Decision]) -> set[str]:
    """Return the names of the operations that decisions are about."""
    return {recording.nodes.label[node] for decision in rows for node in decision.subjects}


def operations(recording: Recording) -> list[str]:
    """Return the names of the operations that the kernels compute, in order."""
    return [recording.nodes.label[node] for kernel in kernels(recording) for node in kernel.nodes]


def laws_of(operation: type[Operation]) -> Iterator[Finding]:
    """Yield a finding for each law that an operation class breaks, or one finding if all laws hold."""
    report = check(operation)
    for result in report.broken:
        yield Finding(False, f"`ex.check`: {result}")
    if report.ok:
        yield Finding(True, f"`ex.check`: {len(report.results)} laws hold.")


def agree(name: str, values: Any, expected: Any, tolerance: float = 1e-6) -> Finding:
    """Return a finding that states whether ``values`` equals ``expected``, with the largest difference."""
    values, expected = np.asarray(values), np.asarray(expected)
    if values.shape != expected.shape:
        return Finding(False, f"{name}: the shape is {values.shape}; expected {expected.shape}.")
    close = bool(np.allclose(values, expected, rtol=tolerance, atol=tolerance))
    worst = float(np.max(np.abs(values - expected), initial=0.0))
    return Finding(
        close,
        f"{name}: {'as expected' if close else f'the largest difference from the expected value is {worst:.2g}'}.",
    )
