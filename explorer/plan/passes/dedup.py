"""Dedup: one computation for each value number; equal sub-expressions become one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.core.expr import Expr
from explorer.core.tensor import Tensor
from explorer.ops.structured import Full
from explorer.plan.graph import Graph, flops_of, result_bytes


@dataclass(frozen=True)
class Dedup:
    """Compute each value once."""

    name = "dedup"

    def run(self, graph: Graph) -> None:
        """Number the values, operands first: equal operation and operand numbers, or storage, give equal numbers."""
        numbers: dict[Any, Expr] = {}
        survivor: dict[int, int] = {}
        merged: dict[int, list[Expr]] = {}
        for node in graph.live:
            operands = graph.inputs[node.uid]
            count = len(operands)
            if count == 1:
                key: Any = (node.operation, survivor[operands[0].uid])
            elif count == 2:
                key = (node.operation, survivor[operands[0].uid], survivor[operands[1].uid])
            elif count:
                key = (node.operation, *[survivor[operand.uid] for operand in operands])
            elif isinstance(node, Tensor):
                key = node.storage
            else:
                key = node.uid if node.operation.name == "parameter" else node.operation
            first = numbers.setdefault(key, node)
            survivor[node.uid] = first.uid
            if first is not node:
                merged.setdefault(first.uid, []).append(node)
        if not merged:
            return
        by_uid = {node.uid: node for node in graph.live}
        constants: list[tuple[Expr, list[Expr]]] = []
        for uid, copies in merged.items():
            first = by_uid[uid]
            if isinstance(first.operation, Full):
                constants.append((first, copies))
                continue
            saved = flops_of(first, graph.inputs[uid]) * len(copies)
            decision = graph.decide(
                self,
                "merged",
                "{first} is computed once for {count} equal expressions: {saved_flops} and {saved_bytes} are saved",
                {
                    "first": first,
                    "count": len(copies) + 1,
                    "saved_flops": saved,
                    "saved_bytes": result_bytes(first) * len(copies),
                },
                copies,
                (first,),
            )
            for copy in copies:
                graph.substitute(decision, copy, first)
        if constants:
            copies = [copy for _, some in constants for copy in some]
            decision = graph.decide(
                self,
                "constants",
                "{count} constants are equal to {kept} others",
                {"count": len(copies), "kept": len(constants)},
                copies,
                tuple(first for first, _ in constants),
            )
            for first, some in constants:
                for copy in some:
                    graph.substitute(decision, copy, first)
