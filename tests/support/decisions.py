"""Decisions of a planned program by their codes and facts."""

from __future__ import annotations

from typing import Any

from explorer.plan.planner import Plan


def codes(planned: Plan, stage: str, applied: bool = True) -> list[str]:
    """Return the codes of the decisions of a stage, in order."""
    numbers = [number for number, row in enumerate(planned.graph.stages) if row.name == stage]
    return [c.code for c in planned.graph.decisions if c.stage in numbers and c.applied is applied]


def facts(planned: Plan, code: str) -> dict[str, Any]:
    """Return the facts of the single decision with a code."""
    (results,) = [decision for decision in planned.graph.decisions if decision.code == code]
    return results.facts
