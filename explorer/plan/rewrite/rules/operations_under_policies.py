"""Operations under policies: they are replaced by the operations that implement the policies.

No other rule matches an operation under policies, because its class is not among the rule's roots. A rule that does not
consider policies therefore cannot violate them
(assets/decisions/0011-an-operation-under-policies-is-another-operation.md).
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.policy_operations import Adjusted
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rule import Answer, Reason, Rule


class UnderPolicies(Rule):
    """An operation under policies is the operation that implements them, such as a product in place of a sum."""

    numerics = "exact"
    roots = (Adjusted,)

    policies = Reason(
        "policies",
        "`{operation}` is computed by `{computed_by}` instead, because of the policies that the program sets: "
        "{policies}.",
        meaning="Policies are given as policies=[…] or inside ex.policies(…). They choose, for example, the dtype in "
        "which a sum is accumulated; the dtype of the result stays the same.",
        change="Remove these policies from policies=[…] or from ex.policies(…).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operation = node.operation
        assert isinstance(operation, Adjusted)
        facts = {
            "operation": operation.name,
            "policies": ", ".join(map(repr, operation.policies)),
            "computed_by": operation.implementation.label,
        }
        replacement = operation.implementation(*graph.operands(node))
        return self.policies.applied(replacement, **facts)
