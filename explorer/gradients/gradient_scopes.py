"""Scopes of gradient nodes, which mirror the layer scopes of the forward node and refer to it.

The reference is a scope of kind "twin", which is not drawn. Copies of a body keep it, and nodes that a pass creates
from a node are in that node's scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import Scope, state


class Origin(NamedTuple):
    """Node of the program from which another node was created, and the rewrite that created it.

    A rewrite is (rule, label of the replaced node).
    """

    node: Expr
    rewrite: tuple[str, str] | None = None


@contextmanager
def gradient_scopes(
    within: Scope | None = None, origins: Mapping[int, Origin] = MappingProxyType({})
) -> Iterator[Callable[[Expr], None]]:
    """Yield a function that is called with a forward node; nodes recorded after the call belong to its gradient.

    The layer scopes around that node, up to ``within``, are repeated inside the current scope. ``origins`` maps uids of
    forward nodes that a rewrite created to nodes of the program; the scope's type records the rewrite.
    """
    inside = state.scope
    mirrors: dict[int, Scope | None] = {}

    def enter(node: Expr) -> None:
        path = []
        scope = node.scope
        # up to the first scope that is already mirrored, so that a net's layers are repeated only once
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
    """Return the uids of the inlined calls around a gradient's scope, then the uid of its forward node."""
    path = []
    while scope is not None:
        if scope.kind == "twin":
            path.append(scope.payload)
        scope = scope.parent
    return tuple(reversed(path))
