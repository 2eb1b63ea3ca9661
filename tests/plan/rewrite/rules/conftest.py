"""Check ``Rule.over`` in every test of rules: a rule skipped because of its operands' producers must not match."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.core.ir.expr import Expr
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes.simplify import ApplicableRules
from explorer.plan.rewrite.rule import Rule


class _PassedOver:
    """Rule that was skipped at a node."""

    concrete = False

    def __init__(self, rule: Rule) -> None:
        self.rule, self.name = rule, rule.name

    def match(self, node: Expr, graph: PlanGraph) -> None:
        assert self.rule.match(node, graph) is None, f"{self.name} has an answer at {node!r}, which `over` hides"


@pytest.fixture(autouse=True)
def skipped_rules_do_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that rules skipped because of ``Rule.over`` would not match in any test that plans."""
    chosen = ApplicableRules.at

    def at(self: ApplicableRules, cls: type, operands: tuple[Expr, ...]) -> Any:
        result = chosen(self, cls, operands)
        return [each if each in result else (each[0], _PassedOver(each[1])) for each in self[cls]]

    monkeypatch.setattr(ApplicableRules, "at", at)
