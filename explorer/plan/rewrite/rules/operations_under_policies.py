"""Operations under policies: what computes them."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.policy_operations import Adjusted
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rule import Answer, Applied, Rule


class UnderPolicies(Rule):
    """An operation under policies is what computes them: a sum accumulated by product is a product."""

    roots = (Adjusted,)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operation = node.operation
        assert isinstance(operation, Adjusted)
        facts = {
            "operation": operation.name,
            "policies": ", ".join(map(repr, operation.policies)),
            "computed_by": operation.standing.label,
        }
        made = operation.standing(*graph.operands(node))
        return Applied(made, "{operation} under {policies} is computed by {computed_by}", facts, "policies")
