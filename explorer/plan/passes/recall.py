"""Recall: values that earlier plans computed, and that somebody still holds, are taken instead of computed again."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from explorer.core.tensor import Tensor
from explorer.plan.graph import Graph, flops_of


@dataclass(frozen=True)
class Recall:
    """Take what was evaluated before."""

    values: Mapping[int, Tensor]
    """uid of an expression → its value"""
    equal: Set[int] = frozenset()
    """uids of those that were not evaluated themselves, but an equal expression"""
    name = "recall"

    def run(self, graph: Graph) -> None:
        """One decision for all of them."""
        found = [node for node in graph.live if node.uid in self.values]
        if not found:
            return
        tensors = [self.values[node.uid] for node in found]
        facts = {"count": len(found), "saved_flops": sum([flops_of(node, graph.inputs[node.uid]) for node in found])}
        reason = "{count:value} evaluated before, and still held, taken as they are"
        equal = sum([node.uid in self.equal for node in found])
        if equal:
            facts["equal"] = equal
            reason += "; {equal} of them by an equal expression that was written before"
        decision = graph.decide(
            self,
            "recalled",
            reason,
            facts,
            found,
            tuple(tensors),
        )
        for node, tensor in zip(found, tensors, strict=True):
            graph.introduce(decision, [tensor], node)
            graph.substitute(decision, node, tensor)
