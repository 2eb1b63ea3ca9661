"""Where gradients stand: in boxes like those of the layers whose nodes they belong to, and named after these nodes.

What belongs to which node travels in scopes of the kind "twin", which nobody draws: copies of a body keep them, and
what a pass makes of a node stands in the scope of that node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from explorer.core.ir.expr import Expr, Scope, state


@contextmanager
def twins(within: Scope | None = None) -> Iterator[Callable[[Expr], None]]:
    """Record what follows as the gradient of the node that the given function was told last.

    The boxes of layers around that node, up to ``within``, are drawn again inside the present one.
    """
    inside = state.scope
    known: dict[int, Scope | None] = {}

    def tell(node: Expr) -> None:
        path = []
        scope = node.scope
        while scope is not None and scope is not within and id(scope) not in known:
            path.append(scope)
            scope = scope.parent
        found = inside if scope is None or scope is within else known[id(scope)]
        for outer in reversed(path):
            if outer.kind == "layer":
                found = Scope(outer.name, outer.kind, found, outer.type, outer.payload)
            known[id(outer)] = found
        state.scope = Scope("", "twin", found, "", node.uid)

    try:
        yield tell
    finally:
        state.scope = inside


def twin_path(scope: Scope | None) -> tuple[int, ...]:
    """The uid of the node whose gradient stands in a scope, after those of the calls that it was opened from."""
    found = []
    while scope is not None:
        if scope.kind == "twin":
            found.append(scope.payload)
        scope = scope.parent
    return tuple(reversed(found))
