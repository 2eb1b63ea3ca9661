"""Prune: nodes that no root needs any more are dropped (dead code elimination).

Substitutions have done the work already: a replaced node is not reached by the walk of the live graph. The pass enters
the decision, without which nodes would disappear from the picture without a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.plan.graph.cost_model import flops_of
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason


@dataclass(frozen=True)
class Prune(Pass):
    """Remove operations and values that no output needs."""

    name = "prune"
    replaced = Reason(
        "unneeded",
        "{count:operation or value is|operations and values are} left out, because nothing reads the result any more: "
        "other decisions have replaced the operations that read it ({readers}).",
        meaning="Another decision put something simpler in the place of an operation, and nothing else needs what it "
        "read.",
    )
    unread = Reason(
        "unneeded",
        "{count:operation or value is|operations and values are} left out, because no result that was asked for "
        "depends on the outcome.",
        meaning="Only what the results need is computed.",
        change="Ask for a value that is to be computed.",
    )

    def run(self, graph: PlanGraph) -> None:
        """Compare all nodes, recorded and produced, with those that the roots reach."""
        needed = graph.inputs
        removed = {node.uid for _, node in graph.removed}
        # Nodes that passes made are pruned, too: a rule may replace what another one has just recorded.
        everything = [*graph.recorded, *[node for _, node in graph.added]]
        unused = [node for node in everything if node.uid not in needed and node.uid not in removed]
        if not unused:
            return
        replaced = {old.uid for _, old, _ in graph.substitutions}
        readers: dict[int, Expr] = {}
        for node in everything:
            # Operands as recorded: those of a replaced node are not read through substitutions any more.
            if node.uid in replaced:
                for operand in node.operands:
                    readers.setdefault(operand.uid, node)
        facts = {
            "count": len(unused),
            "flops": sum([flops_of(node, node.operands) for node in unused]),
            "readers": [readers[node.uid] for node in unused if node.uid in readers][:3],
        }
        reason = self.replaced if facts["readers"] else self.unread
        decision = graph.decide(self, reason, facts, unused)
        graph.removed.extend((decision, node) for node in unused)
