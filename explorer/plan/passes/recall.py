"""Recall: values that earlier plans computed, and that somebody still holds, are taken instead of computed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.core.tensor import Tensor
from explorer.plan.graph import Graph, flops_of


@dataclass(frozen=True)
class Recall:
    """Take what was evaluated before."""

    values: Mapping[int, Tensor]
    """uid of an expression → its value"""
    name = "recall"

    def run(self, graph: Graph) -> None:
        """One decision for all of them."""
        found = [node for node in graph.live if node.uid in self.values]
        if not found:
            return
        tensors = [self.values[node.uid] for node in found]
        decision = graph.decide(
            self,
            "recalled",
            "{count:value} evaluated before, and still held, taken as they are",
            {"count": len(found), "saved_flops": sum([flops_of(node, graph.inputs[node.uid]) for node in found])},
            found,
            tuple(tensors),
        )
        for node, tensor in zip(found, tensors, strict=True):
            graph.introduce(decision, [tensor], node)
            graph.substitute(decision, node, tensor)
