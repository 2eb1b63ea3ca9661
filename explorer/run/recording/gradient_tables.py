"""Gradient tables: which nodes compute the gradient of which node, after all passes and inlining.

The scope of a gradient's nodes contains the uid of the forward node (grad/gradient_scopes.py). Inlining and batching
may have replaced both nodes since they were recorded, so the replacements are followed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Item
from explorer.gradients.gradient_scopes import forward_path
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes.inline import InlinedCalls, own
from explorer.record import Gradient


def gradients(graph: PlanGraph, nodes: Sequence[Expr], ids: Mapping[int, int]) -> list[Gradient]:
    """Return a row for each forward node that has a gradient; ``ids`` maps uids to node ids."""
    finder = _Finder(graph, ids)
    backward: dict[int, list[int]] = {}
    level = [0] * len(nodes)
    for index, node in enumerate(nodes):
        forward = finder.forward(node)
        if forward >= 0 and not isinstance(node.operation, Item):
            backward.setdefault(forward, []).append(index)
            level[index] = level[forward] + 1
    forward_nodes = _with_operands(backward, nodes, ids) if backward else set()
    rows = []
    for forward in sorted(backward):
        saved: dict[int, None] = {}
        for index in backward[forward]:
            for operand in nodes[index].operands:
                value = ids.get(finder.value(operand).uid, -1)
                if value in forward_nodes and level[value] <= level[forward]:
                    saved[value] = None
        rows.append(Gradient(forward, tuple(backward[forward]), tuple(saved)))
    return rows


def _with_operands(with_gradient: Iterable[int], nodes: Sequence[Expr], ids: Mapping[int, int]) -> set[int]:
    """Return the nodes of a forward pass: those with a gradient, and all their operands."""
    reached = set(with_gradient)
    pending = list(reached)
    while pending:
        for operand in nodes[pending.pop()].operands:
            operand_id = ids.get(operand.uid, -1)
            if operand_id >= 0 and operand_id not in reached:
                reached.add(operand_id)
                pending.append(operand_id)
    return reached


class _Finder:
    """Finds the forward node for each node of a gradient."""

    def __init__(self, graph: PlanGraph, ids: Mapping[int, int]) -> None:
        self._graph, self._ids = graph, ids
        self._replaced = {old.uid: new for _, old, new in reversed(graph.substitutions)}
        self._batches = {
            member.uid: graph.decisions[group.decision].produced[0]
            for group in graph.groups
            if group.kind == "batch"
            for member in group.members
        }
        """uid of a call → batched call that replaced it"""
        self._indices: dict[int, dict[int, int]] = {}
        self._forward: dict[int, int] = {}

    def forward(self, node: Expr) -> int:
        """Return the id of the forward node whose gradient ``node`` helps to compute, or −1."""
        scope = node.scope
        if scope is None:
            return -1
        if id(scope) not in self._forward:
            self._forward[id(scope)] = self._node_at(forward_path(scope))
        return self._forward[id(scope)]

    def value(self, node: Expr) -> Expr:
        """Return the node that finally computes a value, after outputs of calls are resolved."""
        node = self._graph.resolve(node)
        while isinstance(node.operation, Item):
            node = self._graph.resolve(node.operands[0])
        return node

    def _node_at(self, path: tuple[int, ...]) -> int:
        """Return the node id for a path of uids: calls, each in the inlined body of the previous one, then a node."""
        if not path:
            return -1
        uid, *inner_uids = path
        for inner_uid in inner_uids:
            inlined = self._inlined_body(uid)
            if inlined is None:
                return -1
            body, copies = inlined
            index = self._indices_in(body).get(inner_uid)
            if index is None:
                return -1
            uid = copies[index].uid
        return self._ids.get(uid, -1)

    def _inlined_body(self, uid: int) -> tuple[Body, list[Expr]] | None:
        """Return the body and nodes inlined for a call, or for the call that replaced it."""
        visited = {uid}
        inlined = self._graph.notes(InlinedCalls)
        while uid not in inlined:
            replacement = self._batches.get(uid, self._replaced.get(uid))
            if replacement is None:
                return None
            uid = (replacement.operands[0] if isinstance(replacement.operation, Item) else replacement).uid
            if uid in visited:
                return None
            visited.add(uid)
        return inlined[uid]

    def _indices_in(self, body: Body) -> dict[int, int]:
        indices = self._indices.get(id(body))
        if indices is None:
            indices = self._indices[id(body)] = {node.uid: index for index, node in enumerate(own(body))}
            members: dict[int, int] = body.derived.get("members", {})
            indices.update({uid: indices[node] for uid, node in members.items() if node in indices})
        return indices
