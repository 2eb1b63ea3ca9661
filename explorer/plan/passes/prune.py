"""Prune: removes nodes that no root needs any more (dead code elimination).

Substitutions have already disconnected these nodes. The pass records a decision about them, so that no node disappears
from the graph without a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from explorer.core.ir.expr import Expr
from explorer.plan.graph.cost_model import flops_of
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason


@dataclass(frozen=True)
class Prune(Pass):
    """Remove operations and values that no output needs."""

    name = "prune"
    replaced = Reason(
        "unneeded",
        "{count:node (operation or value) is|nodes (operations or values) are} removed, because nothing reads the "
        "result any more: earlier decisions replaced operations that read it, such as {readers}.",
        meaning="If a rule replaces an operation by something simpler, operands that nothing else reads are removed. "
        "In log(exp(x)), for example, log is replaced by x, so exp is not computed.",
    )
    unread = Reason(
        "unneeded",
        "{count:node (operation or value) is removed, because no requested result depends on it|nodes (operations or "
        "values) are removed, because no requested result depends on them}.",
        meaning="Only what the requested results need is computed.",
        change="Register (plan.register) or return the values that must be computed.",
    )

    def run(self, graph: PlanGraph) -> None:
        """Find the recorded and the new nodes that the roots do not reach, and record a decision about them."""
        if len(graph.live) == len(graph.recorded) + len(graph.added):
            return
        live_inputs = graph.inputs
        removed = {node.uid for _, node in graph.removed}
        # This includes nodes that passes created, because a rule may replace a node that another rule has just
        # recorded.
        all_nodes = [*graph.recorded, *[node for _, node in graph.added]]
        unused = [node for node in all_nodes if node.uid not in live_inputs and node.uid not in removed]
        if not unused:
            return
        unused_uids = {node.uid for node in unused}
        # Use the recorded operands, because the operands of a replaced node are not updated by substitutions any more.
        replaced = {old.uid: old for _, old, _ in graph.substitutions}
        was_read = any(operand.uid in unused_uids for node in replaced.values() for operand in node.operands)
        reason = self.replaced if was_read else self.unread
        remaining = partial(_facts_of, unused, [node for node in all_nodes if node.uid in replaced])
        decision = graph.decide(self, reason, {}, unused, remaining=remaining)
        graph.removed.extend([(decision, node) for node in unused])


def _facts_of(unused: Sequence[Expr], replaced: Sequence[Expr]) -> Facts:
    """Return how many nodes are unused, the operations that they would take, and the first nodes that read them."""
    readers: dict[int, Expr] = {}
    for node in replaced:
        for operand in node.operands:
            readers.setdefault(operand.uid, node)
    return {
        "count": len(unused),
        "flops": sum([flops_of(node, node.operands) for node in unused]),
        "readers": [readers[node.uid] for node in unused if node.uid in readers][:3],
    }
