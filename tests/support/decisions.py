"""The decisions of a planned program by their codes and facts."""

from __future__ import annotations

from typing import Any

from explorer.plan.planner import Plan


def codes(planned: Plan, stage: str, applied: bool = True) -> list[str]:
    """The codes of the decisions of a stage, in order."""
    numbers = [number for number, row in enumerate(planned.graph.stages) if row.name == stage]
    return [c.code for c in planned.graph.decisions if c.stage in numbers and c.applied is applied]


def facts(planned: Plan, code: str) -> dict[str, Any]:
    """The facts of the one decision with a code."""
    (results,) = [decision for decision in planned.graph.decisions if decision.code == code]
    return results.facts
