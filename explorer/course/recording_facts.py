"""Facts of recordings that checks of exercises rest on, and their sentences."""

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
    """Record an operation by its name."""
    recorded: Expr = functions.find(name)(*operands)
    return recorded


def recording_of(plan: EvalPlan) -> Recording:
    """Return the recording of a plan, which is prepared if nobody has done it yet."""
    try:
        return plan.recording
    except StateError:
        return plan.prepare().recording


def planned(*expressions: Expr, **options: Any) -> Recording:
    """Return the recording of a plan of some expressions that has not run."""
    plan = EvalPlan(**options)
    for expression in expressions:
        plan.register(expression)
    return plan.prepare().recording


def replanned(plan: EvalPlan, **options: Any) -> Recording:
    """Return the recording of a plan of the same expressions with other options."""
    recording_of(plan)
    return planned(*plan.planned.graph.recorded_roots, **options)


def kernels(recording: Recording) -> tuple[Kernel, ...]:
    """Return the kernels of a planned recording."""
    assert recording.schedule is not None
    return recording.schedule.kernels


def kernel_names(recording: Recording) -> str:
    """Return the kernels as text: ``add → tanh``, then the next."""
    names = [" → ".join(recording.label(node) for node in kernel.nodes) for kernel in kernels(recording)]
    return "; ".join(names) or "none"


def decisions(recording: Recording, code: str, verdict: str = "") -> list[Decision]:
    """Return the decisions of one code, and of one verdict if it is named."""
    return [d for d in recording.decisions if d.code == code and verdict in ("", d.verdict)]


def sentences(recording: Recording, rows: list[Decision]) -> str:
    """Return the reasons of decisions."""
    return " ".join(recording.reason(decision) for decision in rows)


def labels(recording: Recording, rows: list[Decision]) -> set[str]:
    """Return the names of the operations that decisions are about."""
    return {recording.nodes.label[node] for decision in rows for node in decision.subjects}


def operations(recording: Recording) -> list[str]:
    """Return the name of every operation that a kernel computes."""
    return [recording.nodes.label[node] for kernel in kernels(recording) for node in kernel.nodes]


def laws_of(operation: type[Operation]) -> Iterator[Finding]:
    """Yield the laws of operations that a class breaks, as `ex.check` reports them."""
    report = check(operation)
    for result in report.broken:
        yield Finding(False, f"`ex.check`: {result}")
    if report.ok:
        yield Finding(True, f"`ex.check`: {len(report.results)} laws hold.")


def agree(name: str, values: Any, expected: Any, tolerance: float = 1e-6) -> Finding:
    """Return whether numbers are those expected, and by how much they are not."""
    values, expected = np.asarray(values), np.asarray(expected)
    if values.shape != expected.shape:
        return Finding(False, f"{name}: the shape is {values.shape}, and {expected.shape} is expected.")
    close = bool(np.allclose(values, expected, rtol=tolerance, atol=tolerance))
    worst = float(np.max(np.abs(values - expected), initial=0.0))
    return Finding(close, f"{name}: {'as expected' if close else f'up to {worst:.2g} away from what is expected'}.")
