"""Checks of rules about control flow with a constant condition or trip count."""

from __future__ import annotations

from explorer.ops.control.cond import Cond
from explorer.ops.control.scan import Scan
from explorer.plan.graph.reasons import Facts
from explorer.plan.rewrite.rules import known_conditions
from tests.laws.claims.decisions import At, of_nodes
from tests.laws.claims.nodes import Expr


def taken(at: At, node: Expr) -> Facts:
    assert isinstance(node.operation, Cond)
    condition = bool(at.value(at.below_at(node, 0)))
    branch = node.operation.branches[0 if condition else 1]
    return {"choice": node, "branch": branch.body.name, "condition": str(condition)}


def unturned(at: At, node: Expr) -> Facts:
    loop = node if node.operation.name != "item" else at.below_at(node, 0)
    is_scan = isinstance(loop.operation, Scan)
    if not is_scan:
        assert not at.value(at.below_at(loop, 0))
    why = "its sequences have no elements" if is_scan else "its condition is the constant False"
    return {"loop": loop, "why": why}


of_nodes(known_conditions.KnownCondition.branch_known)(taken)
of_nodes(known_conditions.LoopWithoutTurns.no_turns)(unturned)
