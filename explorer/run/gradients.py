"""Which nodes compute the gradient of which: what the twins of scopes say, found again after passes and openings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.core.expr import Expr, Scope
from explorer.core.function import Body, Item
from explorer.grad.twin import twin_path
from explorer.plan.graph import Graph
from explorer.plan.passes.open import own
from explorer.record import Gradient


def gradients(graph: Graph, nodes: Sequence[Expr], ids: Mapping[int, int]) -> list[Gradient]:
    """The rows of all forward nodes that have a gradient, by node; ``ids`` are those of the nodes by uid."""
    finder = _Finder(graph, ids)
    backward: dict[int, list[int]] = {}
    saved: dict[int, dict[int, None]] = {}
    for node in nodes:
        forward = finder.forward(node)
        if forward < 0 or isinstance(node.operation, Item):
            continue
        backward.setdefault(forward, []).append(ids[node.uid])
        read = saved.setdefault(forward, {})
        for operand in node.operands:
            value = finder.value(operand)
            if value.uid in ids and not finder.is_backward(value):
                read[ids[value.uid]] = None
    return [Gradient(node, tuple(backward[node]), tuple(saved[node])) for node in sorted(backward)]


class _Finder:
    def __init__(self, graph: Graph, ids: Mapping[int, int]) -> None:
        self._graph, self._ids = graph, ids
        self._replaced = {old.uid: new for _, old, new in reversed(graph.substitutions)}
        self._places: dict[int, dict[int, int]] = {}
        self._forward: dict[int, int] = {}
        self._backward: dict[int, bool] = {}

    def forward(self, node: Expr) -> int:
        """The id of the node whose gradient a node helps to compute, −1 where there is none."""
        scope = node.scope
        if scope is None:
            return -1
        if id(scope) not in self._forward:
            self._forward[id(scope)] = self._found(twin_path(scope))
        return self._forward[id(scope)]

    def is_backward(self, node: Expr) -> bool:
        """Whether a node is part of a gradient, or where one begins."""
        scope = node.scope
        if scope is None:
            return False
        if id(scope) not in self._backward:
            self._backward[id(scope)] = _is_gradient(scope)
        return self._backward[id(scope)]

    def value(self, node: Expr) -> Expr:
        """What computes a value: outputs are read through to what has them."""
        while isinstance(node.operation, Item):
            node = node.operands[0]
        return node

    def _found(self, path: tuple[int, ...]) -> int:
        """Follow a path of uids: each but the last is a call, the next one stands in the body opened there."""
        if not path:
            return -1
        uid, *inner = path
        for part in inner:
            opened = self._opened(uid)
            if opened is None:
                return -1 if len(path) > 2 else self._ids.get(part, -1)
            body, copies = opened
            place = self._place(body).get(part)
            if place is None:
                return -1
            uid = copies[place].uid
        return self._ids.get(uid, -1)

    def _opened(self, uid: int) -> tuple[Body, list[Expr]] | None:
        """What was opened in the place of a call, or of the call that stands for it."""
        seen = {uid}
        while uid not in self._graph.opened:
            other = self._replaced.get(uid)
            if other is None:
                return None
            uid = self.value(other).uid
            if uid in seen:
                return None
            seen.add(uid)
        return self._graph.opened[uid]

    def _place(self, body: Body) -> dict[int, int]:
        held = self._places.get(id(body))
        if held is None:
            held = self._places[id(body)] = {node.uid: place for place, node in enumerate(own(body))}
        return held


def _is_gradient(scope: Scope | None) -> bool:
    while scope is not None:
        if scope.kind in ("twin", "gradient"):
            return True
        scope = scope.parent
    return False
