"""Rows of batches: which member of which value stands for a node; how the operands of a batch are gathered of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from explorer.core.ir.expr import Expr, make_replacement
from explorer.ops.manipulation.concat import GatherStack, Stack
from explorer.ops.manipulation.slicing import Index0
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import member

_reader = functools.cache(Index0)
"""what reads the member of an index: the largest batch says how many are kept"""


class BatchMembers:
    """Nodes that became members of batches. Only those that something outside of batches reads become nodes again."""

    def __init__(self, graph: PlanGraph) -> None:
        self._graph = graph
        self._held: dict[int, tuple[Expr, int]] = {}
        """uid → the value whose member the node is, and its index"""
        self._entered: dict[int, list[Expr]] = {}
        """decision → the nodes that it made members"""
        self._wanted: set[int] = set()
        """uids of members that a batch reads one of"""

    def add(self, node: Expr, whole: Expr, index: int, decision: int) -> None:
        """A decision made the node the member of a value."""
        self._held[node.uid] = whole, index
        self._entered.setdefault(decision, []).append(node)

    def sort_key(self, node: Expr) -> tuple[int, int]:
        """What orders nodes as the values lie that they are members of."""
        held = self._held.get(node.uid)
        return (node.uid, -1) if held is None else (held[0].uid, held[1])

    def as_whole(self, column: Sequence[Expr]) -> Expr | None:
        """The value whose members, all of them in order, the nodes are."""
        first = self._member(column[0])
        if first is None or first[0].shape[0] != len(column):
            return None
        for index, node in enumerate(column):
            found = self._member(node)
            if found is None or found[0] is not first[0] or found[1] != index:
                return None
        return first[0]

    def stack(self, column: Sequence[Expr]) -> Expr:
        """The nodes as members of one value: one that there is, else what gathers or stacks them."""
        whole = self.as_whole(column)
        if whole is not None:
            return whole
        members = [self._member(node) for node in column]
        if not any(members):
            return Stack()(*column)
        return GatherStack.of([(node, None) if at is None else at for node, at in zip(column, members, strict=True)])

    def shared(self, node: Expr) -> Expr:
        """A node that every member of a batch reads."""
        if node.uid in self._held:
            self._wanted.add(node.uid)
        return node

    def finish(self) -> None:
        """Put a member in the place of each node that something outside of batches reads, and drop the others."""
        held, graph = self._held, self._graph
        if not held:
            return
        wanted = self._wanted.union([root.uid for root in graph.roots])
        gone = {node.uid for _, node in graph.removed}
        for node in graph.live:
            if node.uid not in held and node.uid not in gone:
                wanted.update([operand.uid for operand in graph.inputs[node.uid]])
        for decision, nodes in self._entered.items():
            unread = [node for node in nodes if node.uid not in wanted]
            graph.removed += [(decision, node) for node in unread]
            graph.batch_member_of.update({node.uid: held[node.uid] for node in unread})
            graph.substitute_many(decision, [(node, self._row(node)) for node in nodes if node.uid in wanted])

    def _row(self, node: Expr) -> Expr:
        whole, index = self._held[node.uid]
        return make_replacement(_reader(index), (whole,), node, node.scope, node.type)

    def _member(self, node: Expr) -> tuple[Expr, int] | None:
        held = self._held.get(node.uid)
        return member(node, self._graph) if held is None else held
