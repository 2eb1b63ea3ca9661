"""Dimension names that a model file declares for a value: "batch", "seq".

They are stored by uid, outside the expressions, and are not part of a type, so no plan, fingerprint or cache depends on
them.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

from explorer.core.ir.expr import Expr


class DeclaredNames(NamedTuple):
    """Name of each dimension, "" for one without; the declared shape, ``batch×?×64``; its place, ``input 'x'``."""

    names: tuple[str, ...]
    shape: str
    origin: str


_declared: dict[int, DeclaredNames] = {}


def declare_dimensions(node: Expr, declared: DeclaredNames) -> None:
    """Record the dimension names of a value for as long as the expression lives; the first declaration counts."""
    if node.uid not in _declared:
        _declared[node.uid] = declared
        weakref.finalize(node, _declared.pop, node.uid, None).atexit = False


def declared_dimensions(node: Expr) -> DeclaredNames | None:
    """Return the declared names of a value's dimensions, or None."""
    return _declared.get(node.uid)
