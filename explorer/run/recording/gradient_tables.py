"""Which nodes compute the gradient of which: what the twins of scopes say, found again after passes and openings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Item
from explorer.grad.gradient_scopes import twin_path
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes.inline import own
from explorer.record import Gradient


def gradients(graph: PlanGraph, nodes: Sequence[Expr], ids: Mapping[int, int]) -> list[Gradient]:
    """The rows of all forward nodes that have a gradient, by node; ``ids`` are those of the nodes by uid."""
    finder = _Finder(graph, ids)
    backward: dict[int, list[int]] = {}
    level = [0] * len(nodes)
    for number, node in enumerate(nodes):
        forward = finder.forward(node)
        if forward >= 0 and not isinstance(node.operation, Item):
            backward.setdefault(forward, []).append(number)
            level[number] = level[forward] + 1
    known = _below(backward, nodes, ids) if backward else set()
    made = []
    for forward in sorted(backward):
        read: dict[int, None] = {}
        for number in backward[forward]:
            for operand in nodes[number].operands:
                value = ids.get(finder.value(operand).uid, -1)
                if value in known and level[value] <= level[forward]:
                    read[value] = None
        made.append(Gradient(forward, tuple(backward[forward]), tuple(read)))
    return made


def _below(found: Iterable[int], nodes: Sequence[Expr], ids: Mapping[int, int]) -> set[int]:
    """The nodes of a forward pass: those that have a gradient, and all that they need."""
    known = set(found)
    waiting = list(known)
    while waiting:
        for operand in nodes[waiting.pop()].operands:
            number = ids.get(operand.uid, -1)
            if number >= 0 and number not in known:
                known.add(number)
                waiting.append(number)
    return known


class _Finder:
    def __init__(self, graph: PlanGraph, ids: Mapping[int, int]) -> None:
        self._graph, self._ids = graph, ids
        self._replaced = {old.uid: new for _, old, new in reversed(graph.substitutions)}
        self._batches = {
            member.uid: graph.decisions[group.decision].produced[0]
            for group in graph.groups
            if group.kind == "batch"
            for member in group.members
        }
        """uid of a call → the call over stacked rows that it became a member of"""
        self._places: dict[int, dict[int, int]] = {}
        self._forward: dict[int, int] = {}

    def forward(self, node: Expr) -> int:
        """The id of the node whose gradient a node helps to compute, −1 where there is none."""
        scope = node.scope
        if scope is None:
            return -1
        if id(scope) not in self._forward:
            self._forward[id(scope)] = self._found(twin_path(scope))
        return self._forward[id(scope)]

    def value(self, node: Expr) -> Expr:
        """What computes a value in the end: outputs are read through to what has them."""
        node = self._graph.resolve(node)
        while isinstance(node.operation, Item):
            node = self._graph.resolve(node.operands[0])
        return node

    def _found(self, path: tuple[int, ...]) -> int:
        """Follow a path of uids: each but the last is a call, the next one stands in the body opened there."""
        if not path:
            return -1
        uid, *inner = path
        for part in inner:
            opened = self._opened(uid)
            if opened is None:
                return -1
            body, copies = opened
            place = self._place(body).get(part)
            if place is None:
                return -1
            uid = copies[place].uid
        return self._ids.get(uid, -1)

    def _opened(self, uid: int) -> tuple[Body, list[Expr]] | None:
        """What was opened in the place of a call, or of the call that stands for it."""
        seen = {uid}
        while uid not in self._graph.inlined:
            other = self._batches.get(uid, self._replaced.get(uid))
            if other is None:
                return None
            uid = (other.operands[0] if isinstance(other.operation, Item) else other).uid
            if uid in seen:
                return None
            seen.add(uid)
        return self._graph.inlined[uid]

    def _place(self, body: Body) -> dict[int, int]:
        held = self._places.get(id(body))
        if held is None:
            held = self._places[id(body)] = {node.uid: place for place, node in enumerate(own(body))}
            members: dict[int, int] = body.derived.get("members", {})
            held.update({uid: held[node] for uid, node in members.items() if node in held})
        return held
