"""Every test of links asks also those that were passed over for what makes the operands: they have no answer."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.core.expr import Expr
from explorer.plan.graph import Graph
from explorer.plan.passes.simplify import _Chains


@pytest.fixture(autouse=True)
def passed_over_links_have_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``Link.over`` says holds wherever a test of links plans."""
    chosen = _Chains.at

    def at(self: _Chains, node: Expr, kind: type, graph: Graph) -> Any:
        found = chosen(self, node, kind, graph)
        for index, link in self[kind]:
            if (index, link) not in found:
                assert link.match(node, graph) is None, f"{link.name} has an answer at {node!r}, which `over` hides"
        return found

    monkeypatch.setattr(_Chains, "at", at)
