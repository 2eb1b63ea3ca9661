"""Scopes for gradient nodes: they mirror the forward node's layer scopes and record which forward node they belong to.

The forward node is kept in scopes of the kind "twin", which are not drawn: copies of a body keep them, and nodes that a
pass makes from a node are in that node's scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import Scope, state


class Origin(NamedTuple):
    """Node of the program that another one stands for, and the rewrite that made it.

    A rewrite is the rule, and the label of the node that it replaced.
    """

    node: Expr
    rewrite: tuple[str, str] | None = None


@contextmanager
def gradient_scopes(
    within: Scope | None = None, origins: Mapping[int, Origin] = MappingProxyType({})
) -> Iterator[Callable[[Expr], None]]:
    """Record nodes as the gradient of the forward node that the yielded function was last called with.

    The layer scopes around that node, up to ``within``, are repeated inside the current one. ``origins`` are the nodes
    of the program for forward nodes that a rewrite made, by uid; the scope's type notes the rewrite.
    """
    inside = state.scope
    mirrors: dict[int, Scope | None] = {}

    def enter(node: Expr) -> None:
        path = []
        scope = node.scope
        # Up to the first scope that has a mirror already: the layers of a net are repeated once, not for each node.
        while scope is not None and scope is not within and id(scope) not in mirrors:
            path.append(scope)
            scope = scope.parent
        mirrored = inside if scope is None or scope is within else mirrors[id(scope)]
        for outer in reversed(path):
            if outer.kind == "layer":
                mirrored = Scope(outer.name, outer.kind, mirrored, outer.type, outer.payload)
            mirrors[id(outer)] = mirrored
        origin = origins.get(node.uid, Origin(node))
        state.scope = Scope("", "twin", mirrored, "\n".join(origin.rewrite or ()), origin.node.uid)

    try:
        yield enter
    finally:
        state.scope = inside


def forward_path(scope: Scope | None) -> tuple[int, ...]:
    """Return the uid of the forward node of a gradient's scope, after those of the calls that were inlined around
    it."""
    path = []
    while scope is not None:
        if scope.kind == "twin":
            path.append(scope.payload)
        scope = scope.parent
    return tuple(reversed(path))
