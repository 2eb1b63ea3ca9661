"""Iterative traversal of expression graphs, which can be 100,000 nodes deep, beyond Python's recursion limit.

All traversals outside of a plan use these functions to collect the nodes on which values depend, and to copy nodes and
scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from explorer.core.ir.expr import Expr, make_replacement
from explorer.core.ir.recording_context import Scope


def reachable(roots: Iterable[Expr], stop: Callable[[Expr], bool] | None = None) -> list[Expr]:
    """Return all nodes on which the roots depend, in recording order (operands first).

    Nodes for which ``stop`` returns True are included, but not their operands.
    """
    visited: dict[int, Expr] = {}
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node.uid not in visited:
            visited[node.uid] = node
            if stop is None or not stop(node):
                pending.extend(node.operands)
    # uids increase in recording order, so sorting by uid is a topological sort
    return [visited[uid] for uid in sorted(visited)]


def rebuild(
    nodes: Iterable[Expr], replaced: Mapping[int, Expr], rescope: Callable[[Expr], Scope | None]
) -> dict[int, Expr]:
    """Copy ``nodes`` (operands first), replacing operands according to ``replaced`` (uid → node).

    Returns uid → node for all of them. Nodes with unchanged operands are copied, too, so every copy has its own uid,
    the scope ``rescope(node)`` and the original's source location.
    """
    copies = dict(replaced)
    for node in nodes:
        if node.uid not in copies:
            operands = tuple([copies.get(operand.uid, operand) for operand in node.operands])
            copies[node.uid] = make_replacement(node.operation, operands, node, rescope(node))
    return copies


def rescope(scope: Scope | None, copies: dict[int, Scope], top: Scope) -> Scope:
    """Copy ``scope`` and its enclosing scopes below the scope ``top``; ``copies`` caches the copies."""
    path = []
    while scope is not None and id(scope) not in copies:
        path.append(scope)
        scope = scope.parent
    copy = copies[id(scope)] if scope is not None else top
    for original in reversed(path):
        copy = copies[id(original)] = Scope(original.name, original.kind, copy, original.type, original.payload)
    return copy
