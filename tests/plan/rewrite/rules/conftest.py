"""Every test of links asks also those that were passed over for what makes the operands: they have no answer."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.core.ir.expr import Expr
from explorer.plan.graph.plan_graph import Graph
from explorer.plan.passes.simplify import _Chains
from explorer.plan.rewrite.rule import Link


class _PassedOver:
    """A link that is not asked at a node."""

    concrete = False

    def __init__(self, link: Link) -> None:
        self.link, self.name = link, link.name

    def match(self, node: Expr, graph: Graph) -> None:
        assert self.link.match(node, graph) is None, f"{self.name} has an answer at {node!r}, which `over` hides"


@pytest.fixture(autouse=True)
def passed_over_links_have_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``Link.over`` says holds wherever a test of links plans."""
    chosen = _Chains.at

    def at(self: _Chains, kind: type, operands: tuple[Expr, ...]) -> Any:
        found = chosen(self, kind, operands)
        return [each if each in found else (each[0], _PassedOver(each[1])) for each in self[kind]]

    monkeypatch.setattr(_Chains, "at", at)
