"""Scopes of gradient nodes: they mirror the layer scopes of the forward node and refer to it.

The reference is a scope of kind "twin", which is not drawn. Copies of a body keep it, and nodes that passes create from
a node inherit the node's scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import Scope, state


class Origin(NamedTuple):
    """Program node from which another node was created, and the rewrite that created it.

    ``rewrite`` is (rule, label of the replaced node).
    """

    node: Expr
    rewrite: tuple[str, str] | None = None


@contextmanager
def gradient_scopes(
    within: Scope | None = None, origins: Mapping[int, Origin] = MappingProxyType({})
) -> Iterator[Callable[[Expr], None]]:
    """Yield a function that is called with a forward node and starts the scopes of its gradient.

    Nodes recorded after the call belong to this gradient. The layer scopes around the forward node, up to ``within``,
    are repeated inside the current scope. If a rewrite created the forward node, ``origins`` maps its uid to the
    original program node, and the scope's type records the rewrite.
    """
    inside = state.scope
    mirrors: dict[int, Scope | None] = {}

    def enter(node: Expr) -> None:
        path = []
        scope = node.scope
        # stop at the first mirrored scope, so that a net's layers are repeated only once
        while scope is not None and scope is not within and id(scope) not in mirrors:
            path.append(scope)
            scope = scope.parent
        mirrored = inside if scope is None or scope is within else mirrors[id(scope)]
        for outer in reversed(path):
            if outer.kind == "layer":
                mirrored = Scope(outer.name, outer.kind, mirrored, outer.type, outer.payload)
            mirrors[id(outer)] = mirrored
        origin = origins.get(node.uid)
        rewrite, uid = ("", node.uid) if origin is None else ("\n".join(origin.rewrite or ()), origin.node.uid)
        state.scope = Scope("", "twin", mirrored, rewrite, uid)

    try:
        yield enter
    finally:
        state.scope = inside


def forward_path(scope: Scope | None) -> tuple[int, ...]:
    """Return the uids of the inlined calls around a gradient's scope, followed by the forward node's uid."""
    path = []
    while scope is not None:
        if scope.kind == "twin":
            path.append(scope.payload)
        scope = scope.parent
    return tuple(reversed(path))
