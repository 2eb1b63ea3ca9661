"""Rows of decisions: a decision about expressions becomes one about node ids, with all its facts, measured ones too.

Facts keep their types: a number stays a number, and a view formats it. An expression that has no row, such as one that
a rule built and did not use, becomes its label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.numerics import EFFECTS
from explorer.record import Decision, Explanation


def decision_rows(
    decisions: Sequence[PlanDecision],
    subjects: Sequence[tuple[int, ...]],
    produced: Sequence[tuple[int, ...]],
    ids: Mapping[int, int],
    measured: Mapping[int, Mapping[str, Any]],
) -> list[Decision]:
    """Return the row of each decision, made once.

    ``subjects`` and ``produced`` are its nodes by id, ``ids`` are node ids by uid for the expressions among its facts,
    ``measured`` has the facts that a run adds, by the number of the decision.
    """
    return [
        Decision(
            decision.stage,
            decision.rule,
            "applied" if decision.applied else "declined",
            decision.code,
            decision.reason.sentence,
            {
                **{name: _fact(value, ids) for name, value in decision.facts.items()},
                **({} if decision.applied else {"estimated_cost_us": round(decision.cost_us(), 3)}),
                **measured.get(number, {}),
            },
            subjects[number],
            produced[number],
            decision.rule_index,
            decision.location,
        )
        for number, decision in enumerate(decisions)
    ]


def declined_edges(decisions: Sequence[PlanDecision], ids: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Return (decision, operand, reader) for each value that is written because a decision declined to fuse it."""
    return [
        (number, operand, reader)
        for number, decision in enumerate(decisions)
        for operand, reader in dict.fromkeys([(ids[a.uid], ids[b.uid]) for a, b in decision.unfused_edges])
    ]


def explanations(decisions: Sequence[PlanDecision]) -> list[Explanation]:
    """Return the meanings of the reasons of decisions, each once."""
    reasons = dict.fromkeys(
        [decision.reason for decision in decisions if decision.reason.meaning or decision.reason.effect != "exact"]
    )
    return [
        Explanation(
            reason.code,
            reason.sentence,
            reason.meaning,
            reason.change,
            reason.anchor,
            "" if reason.effect == "exact" else f"{reason.effect}: {EFFECTS[reason.effect]}",
        )
        for reason in reasons
    ]


def _fact(value: Any, ids: Mapping[int, int]) -> Any:
    """Convert a fact to plain data; expressions become node ids."""
    if isinstance(value, Expr):
        return {"node": ids[value.uid]} if value.uid in ids else value.label
    if isinstance(value, (list, tuple)):
        return [_fact(item, ids) for item in value]
    return value.item() if hasattr(value, "item") else value
