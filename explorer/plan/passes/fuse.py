"""Fuse: elementwise operations join the kernel of what they read, so that no temporary is written between them."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.plan.graph import Cluster, Graph

ANCHORS = ("matmul", "conv2d")
"""operations whose kernels take elementwise epilogues: a bias, an activation, a residual"""


class _Group:
    __slots__ = ("anchor", "members")

    def __init__(self, node: Expr, anchor: bool) -> None:
        self.members = [node]
        self.anchor = anchor


class Epilogue:
    """An elementwise operation on a product runs while the product's rows are still in the cache."""


class ElementwiseChain:
    """Elementwise operations of one shape run block by block, without temporaries between them."""


_EPILOGUE, _CHAIN = Epilogue(), ElementwiseChain()


@dataclass(frozen=True)
class Fuse:
    """Join elementwise chains and trees, and epilogues of products, into kernels."""

    name = "fuse"

    def run(self, graph: Graph) -> None:
        """Grow groups from the operands up; an operand joins when nobody else reads it and the shape stays."""
        roots = {root.uid for root in graph.roots}
        groups: dict[int, _Group] = {}
        for node in graph.live:
            operation = node.operation
            operands = graph.inputs[node.uid]
            if not operands or operation.view:
                continue
            if not operation.elementwise:
                if operation.name in ANCHORS:
                    groups[node.uid] = _Group(node, True)
                continue
            own = groups[node.uid] = _Group(node, False)
            joined: set[int] = set()
            for operand in operands:
                if operand.uid in joined or not operand.operands:
                    continue
                other = groups.get(operand.uid)
                if other is None:
                    self._explain_producer(node, operand, graph)
                    continue
                joined.add(operand.uid)
                if self._joins(node, operand, sum([o is operand for o in operands]), own, other, roots, graph):
                    other.members.extend(own.members)
                    other.anchor = other.anchor or own.anchor
                    own = groups[node.uid] = other
        seen: set[int] = set()
        number = 0
        for node in graph.live:
            group = groups.get(node.uid)
            if group is None or id(group) in seen or len(group.members) < 2:
                continue
            seen.add(id(group))
            number += 1
            self._enter(number, group, graph)

    def _joins(
        self, node: Expr, operand: Expr, reads: int, own: _Group, other: _Group, roots: set[int], graph: Graph
    ) -> bool:
        link = _EPILOGUE if other.anchor else _CHAIN
        if operand.uid in roots:
            graph.refuse(link, "asked_for", "{operand} is asked for, so it is written anyway", {"operand": operand}, node)
        elif graph.users[operand.uid] > reads:
            graph.refuse(
                link,
                "other_consumers",
                "{operand} has {consumers} consumers: fused here, it would be computed again or written anyway",
                {"operand": operand, "consumers": graph.users[operand.uid]},
                node,
            )
        elif operand.shape != node.shape:
            graph.refuse(
                link,
                "shape",
                "the shape changes from {before} to {after}: the blocks do not match",
                {"before": _shape(operand), "after": _shape(node)},
                node,
            )
        elif own.anchor and other.anchor:
            graph.refuse(link, "second_product", "the kernel has a product already, and {operand} is another", {"operand": operand}, node)
        else:
            return True
        return False

    def _explain_producer(self, node: Expr, operand: Expr, graph: Graph) -> None:
        kind = "a view, which moves no element" if operand.operation.view else "no elementwise operation and takes no epilogue"
        graph.refuse(
            _CHAIN, "producer", "{producer} is " + kind, {"producer": operand.operation.name}, node
        )

    def _enter(self, number: int, group: _Group, graph: Graph) -> None:
        members = sorted(group.members, key=lambda node: node.operation.elementwise)  # stable: a product comes first
        saved = sum([node.type.nbytes for node in members[:-1]])
        first, last = members[0], members[-1]
        label = " · ".join([node.operation.label for node in members[:4]]) + (" · …" if len(members) > 4 else "")
        link = _EPILOGUE if group.anchor else _CHAIN
        decision = graph.decide(
            link,
            "epilogue" if group.anchor else "chain",
            "{count} operations from {first} to {last} run as one kernel: {temporaries} temporaries of {saved_bytes} are never written",
            {"count": len(members), "first": first, "last": last, "temporaries": len(members) - 1, "saved_bytes": saved, "number": number},
            members,
        )
        graph.clusters.append(Cluster(decision, "kernel", label, members))


def _shape(node: Expr) -> str:
    return "×".join(map(str, node.shape)) or "scalar"
