"""Walks over expression graphs, all of them iterative: a graph can be 100,000 nodes deep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from explorer.core.ir.expr import Expr, Scope, make_replacement


def reachable(roots: Iterable[Expr], stop: Callable[[Expr], bool] | None = None) -> list[Expr]:
    """All nodes that the roots need, in order of recording (operands before users); not below nodes that ``stop``."""
    seen: dict[int, Expr] = {}
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node.uid not in seen:
            seen[node.uid] = node
            if stop is None or not stop(node):
                pending.extend(node.operands)
    return [seen[uid] for uid in sorted(seen)]


def rebuild(
    nodes: Iterable[Expr], replaced: Mapping[int, Expr], rescope: Callable[[Expr], Scope | None]
) -> dict[int, Expr]:
    """New nodes for ``nodes`` (operands first), reading ``replaced`` (uid → node) where it has an operand.

    Returns uid → node for all of them; a node none of whose operands changed is copied all the same, so that every
    copy has its own uid, scope ``rescope(node)`` and the place of its original.
    """
    made = dict(replaced)
    for node in nodes:
        if node.uid not in made:
            operands = tuple([made.get(operand.uid, operand) for operand in node.operands])
            made[node.uid] = make_replacement(node.operation, operands, node, rescope(node))
    return made


def rescope(scope: Scope | None, known: dict[int, Scope], top: Scope) -> Scope:
    """The scope as it stands under another top: ``known`` maps the old scopes that were met to new ones."""
    path = []
    while scope is not None and id(scope) not in known:
        path.append(scope)
        scope = scope.parent
    found = known[id(scope)] if scope is not None else top
    for old in reversed(path):
        found = known[id(old)] = Scope(old.name, old.kind, found, old.type, old.payload)
    return found
