"""Constants: values that depend only on weights are computed once for each program, before its first run.

This pass only marks these values. The pass `Order` puts their kernels first. The pass `Buffers` keeps their results
outside the arena, because they are needed after a run. The program computes each of them once (ComputeOnce in
run/kernels/runners.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.plan.graph.constancy import Prepared, prepared
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason


@dataclass(frozen=True)
class Constants(Pass):
    """Find the values that are the same in every run; these are computed once and kept."""

    name = "constants"
    prepared_once = Reason(
        "prepared_once",
        "{count:operation is|operations are} computed once, before the first run, not in every run, because the "
        "results depend only on weights and other constants, not on inputs. Keeping these results takes {kept_bytes} "
        "of memory.",
        meaning="Weights are tensors that the program holds; inputs are passed at each run. A result that depends on "
        "no input is the same in every run. Only results that other operations read in every run are kept.",
        change='ex.EvalPlan(without=["constants"]) computes them in every run and keeps nothing.',
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether some values are passed at each run."""
        return graph.has_parameters

    def run(self, graph: PlanGraph) -> None:
        """Mark the nodes that depend on no parameter, and record how many bytes of their results are kept."""
        prepared_nodes = prepared(graph)
        graph.notes(Prepared).update([node.uid for node in prepared_nodes])
        computed = [node for node in prepared_nodes if not node.operation.view]
        if not computed:
            return
        kept_nodes = _kept_results(prepared_nodes, graph)
        graph.decide(
            self,
            self.prepared_once,
            {
                "count": len(computed),
                "kept": len(kept_nodes),
                "kept_bytes": sum([node.type.nbytes for node in kept_nodes]),
            },
            computed,
        )


def _kept_results(prepared_nodes: list[Expr], graph: PlanGraph) -> list[Expr]:
    """Return the results to keep: those that nodes of each run read, directly or through views."""
    base: dict[int, Expr] = {}
    for node in prepared_nodes:
        operands = graph.inputs[node.uid]
        # Operands come before their readers, so one step resolves any number of views.
        base[node.uid] = base.get(operands[0].uid, operands[0]) if node.operation.view and operands else node
    results: dict[int, Expr] = {}
    prepared_uids = graph.notes(Prepared)
    for node in graph.live:
        if node.uid not in prepared_uids:
            for operand in graph.inputs[node.uid]:
                viewed = base.get(operand.uid)
                # A view of a tensor needs no additional memory.
                if viewed is not None and viewed.uid in prepared_uids:
                    results[viewed.uid] = viewed
    return list(results.values())
