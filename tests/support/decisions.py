"""The decisions of a planned program by their codes and facts."""

from __future__ import annotations

from typing import Any

from explorer.plan.planner import Planned


def codes(planned: Planned, stage: str, applied: bool = True) -> list[str]:
    """The codes of the decisions of a stage, in order."""
    numbers = [number for number, chapter in enumerate(planned.graph.chapters) if chapter.name == stage]
    return [c.code for c in planned.graph.choices if c.stage in numbers and c.applied is applied]


def facts(planned: Planned, code: str) -> dict[str, Any]:
    """The facts of the one decision with a code."""
    (found,) = [choice for choice in planned.graph.choices if choice.code == code]
    return found.facts
