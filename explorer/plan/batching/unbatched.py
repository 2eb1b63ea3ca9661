"""Reasons of calls that were not batched although others call a function of the same name.

Somebody who expects a batch looks at one call and asks why it runs alone. The pass itself never considers a bucket of
one, so that nothing would answer; this walk, after the batches, finds the fact that kept such calls apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.plan.batching.batching_reasons import BatchReasons
from explorer.plan.graph.cost_model import CostModel
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, RuleInfo


def record_unbatched(
    rule: RuleInfo, buckets: Iterable[Sequence[Expr]], first: int, cost_model: CostModel, graph: PlanGraph
) -> None:
    """Decline every call that no decision since ``first`` is about, where there are others of its function's name.

    A bucket holds the calls of one body at one depth of calls. What a call could have saved is the start of its
    kernels, which the others of a batch would share.
    """
    explained = {node.uid for decision in graph.decisions[first:] for node in decision.subjects}
    named: dict[str, list[Sequence[Expr]]] = {}
    for bucket in buckets:
        named.setdefault(bucket[0].operation.label, []).append(bucket)
    for name, same_name in named.items():
        depths: dict[int, list[Sequence[Expr]]] = {}
        for bucket in same_name:
            depths.setdefault(id(bucket[0].operation), []).append(bucket)
        # A function that is called once has nothing to be batched with.
        if len(same_name) == 1 and len(same_name[0]) == 1:
            continue
        counts = {body: sum(map(len, same_body)) for body, same_body in depths.items()}
        for bucket in same_name:
            if bucket[0].uid in explained:
                continue
            body = id(bucket[0].operation)
            same_body, count = depths[body], counts[body]
            if len(bucket) > 1:
                reason = BatchReasons.same_operands
                facts: Facts = {"name": name, "count": len(bucket)}
            elif len(same_body) > 1:
                reason = BatchReasons.depth
                facts = {"name": name, "count": count, "depths": len(same_body)}
            else:
                reason = BatchReasons.other_body
                facts = {"name": name, "bodies": len(depths)}
            cost = _starts(bucket[0]) * cost_model.call
            for call in bucket:
                graph.decline(rule, reason, facts, call, estimated_cost_us=cost)


def _starts(call: Expr) -> int:
    """Return how many kernels a call starts."""
    assert isinstance(call.operation, Call)
    return sum([bool(node.operands) and not node.operation.view for node in call.operation.body.nodes])
