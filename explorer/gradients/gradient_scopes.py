"""Scopes of gradient nodes: they mirror the layer scopes of the forward node, and refer to this node.

The reference is a scope of kind "twin", which is not drawn. Copies of a body keep this scope. If a pass creates new
nodes from a node, they are in the scope of this node.
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

    ``rewrite`` is (rule, label of the replaced node).
    """

    node: Expr
    rewrite: tuple[str, str] | None = None


@contextmanager
def gradient_scopes(
    within: Scope | None = None, origins: Mapping[int, Origin] = MappingProxyType({})
) -> Iterator[Callable[[Expr], None]]:
    """Yield a function to be called with a forward node.

    Nodes recorded after the call belong to the gradient of this node. The layer scopes around the forward node, up to
    ``within``, are repeated inside the current scope. If a rewrite created the forward node, ``origins`` maps its uid
    to the original node of the program; the scope's type records the rewrite.
    """
    inside = state.scope
    mirrors: dict[int, Scope | None] = {}

    def enter(node: Expr) -> None:
        path = []
        scope = node.scope
        # stop at the first scope that is already mirrored, so that the layers of a net are repeated only once
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
    """Return the uids of the inlined calls around the scope of a gradient, followed by the uid of the forward node."""
    path = []
    while scope is not None:
        if scope.kind == "twin":
            path.append(scope.payload)
        scope = scope.parent
    return tuple(reversed(path))
