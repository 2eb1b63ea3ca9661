"""Operations under policies: what computes them."""

# ruff: noqa: D102  # match() is documented once, by Link

from __future__ import annotations

from explorer.core.adjusted import Adjusted
from explorer.core.expr import Expr
from explorer.plan.graph import Graph
from explorer.plan.rule import Answer, Applied, Link


class UnderPolicies(Link):
    """An operation under policies is what computes them: a sum accumulated by product is a product."""

    roots = (Adjusted,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        operation = node.operation
        assert isinstance(operation, Adjusted)
        facts = {
            "operation": operation.name,
            "policies": ", ".join(map(repr, operation.policies)),
            "computed_by": operation.standing.label,
        }
        made = operation.standing(*graph.operands(node))
        return Applied(made, "{operation} under {policies} is computed by {computed_by}", facts, "policies")
