"""Members of batches: which row of which batched value replaces a node, and how operands of a batch are stacked.

A node that becomes a member is not replaced at once. If only batches read it, its row is never taken: the next batch
reads the whole value, or a gather of its rows. Only members that something else reads become nodes again, at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from explorer.core.ir.expr import Expr, make_replacement
from explorer.ops.manipulation.concat import GatherStack, Stack
from explorer.ops.manipulation.slicing import Index0
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import member

_reader = functools.cache(Index0)
"""the operation that reads the member of an index; as many are kept as the largest batch has members"""


class BatchMembers:
    """Nodes that became members of batched values."""

    def __init__(self, graph: PlanGraph) -> None:
        self._graph = graph
        self._members: dict[int, tuple[Expr, int]] = {}
        """uid → the value whose member the node is, and its index"""
        self._entered: dict[int, list[Expr]] = {}
        """decision → the nodes that it took into a batch"""
        self._wanted: set[int] = set()
        """uids of members that a batch reads by themselves"""

    def add(self, node: Expr, whole: Expr, index: int, decision: int) -> None:
        """Make the node the member of a batched value, by a decision."""
        self._members[node.uid] = whole, index
        self._entered.setdefault(decision, []).append(node)

    def sort_key(self, node: Expr) -> tuple[int, int]:
        """Return a key that sorts nodes by the value of which they are members, then by their index in it."""
        entry = self._members.get(node.uid)
        return (node.uid, -1) if entry is None else (entry[0].uid, entry[1])

    def as_whole(self, column: Sequence[Expr]) -> Expr | None:
        """Return the value whose members, all of them and in order, the nodes are; None if there is none."""
        first = self._member(column[0])
        if first is None or first[0].shape[0] != len(column):
            return None
        for index, node in enumerate(column):
            row = self._member(node)
            # In order and without gaps: any other choice of rows needs a gather.
            if row is None or row[0] is not first[0] or row[1] != index:
                return None
        return first[0]

    def stack(self, column: Sequence[Expr]) -> Expr:
        """Return a value whose members are the nodes: an existing one, else a gather of rows or a stack."""
        whole = self.as_whole(column)
        if whole is not None:
            return whole
        members = [self._member(node) for node in column]
        # No node is a row of anything: a plain stack, without the look-ups of a gather.
        if not any(members):
            return Stack()(*column)
        return GatherStack.of([(node, None) if at is None else at for node, at in zip(column, members, strict=True)])

    def shared(self, node: Expr) -> Expr:
        """Return a node that every member of a batch reads, and note that it is needed by itself."""
        if node.uid in self._members:
            self._wanted.add(node.uid)
        return node

    def finish(self) -> None:
        """Put a row in the place of each node that something outside of batches reads, and drop the others."""
        members, graph = self._members, self._graph
        if not members:
            return
        needed = self._wanted.union([root.uid for root in graph.roots])
        removed = {node.uid for _, node in graph.removed}
        # What is left outside: roots, and nodes that are no members themselves.
        for node in graph.live:
            if node.uid not in members and node.uid not in removed:
                needed.update([operand.uid for operand in graph.inputs[node.uid]])
        for decision, nodes in self._entered.items():
            unread = [node for node in nodes if node.uid not in needed]
            graph.removed += [(decision, node) for node in unread]
            graph.batch_member_of.update({node.uid: members[node.uid] for node in unread})
            graph.substitute_many(decision, [(node, self._row(node)) for node in nodes if node.uid in needed])

    def _row(self, node: Expr) -> Expr:
        """Record the row that stands for a node, in the node's scope and at its line."""
        whole, index = self._members[node.uid]
        return make_replacement(_reader(index), (whole,), node, node.scope, node.type)

    def _member(self, node: Expr) -> tuple[Expr, int] | None:
        """Return the value and the index of which a node is the row, by a batch or as the program wrote it."""
        entry = self._members.get(node.uid)
        return member(node, self._graph) if entry is None else entry
