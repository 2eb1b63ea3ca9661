"""Constants: what depends on weights alone is computed once for each program, before its first run."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.plan.graph.constancy import prepared
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph


@dataclass(frozen=True)
class Constants(Pass):
    """Mark what every run finds the same: it is computed once, and its values are kept."""

    name = "constants"

    def has_work(self, graph: PlanGraph) -> bool:
        """Whether some values are given at each run."""
        return graph.has_parameters

    def run(self, graph: PlanGraph) -> None:
        """Mark the nodes that depend on no parameter, and tell how much memory keeps them."""
        found = prepared(graph)
        graph.prepared = {node.uid for node in found}
        computed = [node for node in found if not node.operation.view]
        if not computed:
            return
        kept = _kept(found, graph)
        graph.decide(
            self,
            "prepared_once",
            "prepared once: {count:operation} on weights alone, for all runs of the plan; {kept_bytes} kept",
            {"count": len(computed), "kept": len(kept), "kept_bytes": sum([node.type.nbytes for node in kept])},
            computed,
        )


def _kept(found: list[Expr], graph: PlanGraph) -> list[Expr]:
    """The results among them that something else reads, themselves or through views."""
    base: dict[int, Expr] = {}
    for node in found:
        operands = graph.inputs[node.uid]
        base[node.uid] = base.get(operands[0].uid, operands[0]) if node.operation.view and operands else node
    kept: dict[int, Expr] = {}
    for node in graph.live:
        if node.uid not in graph.prepared:
            for operand in graph.inputs[node.uid]:
                source = base.get(operand.uid)
                if source is not None and source.uid in graph.prepared:
                    kept[source.uid] = source
    return list(kept.values())
