"""Names that a model file declares for the dimensions of a value, such as "batch" and "seq".

They are stored outside the expressions, keyed by uid. Because they are not part of a type, no plan, fingerprint or
cache depends on them.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

from explorer.core.ir.expr import Expr


class DeclaredNames(NamedTuple):
    """Dimension names ("" for none), the declared shape (``batch×?×64``), and its origin (``input 'x'``)."""

    names: tuple[str, ...]
    shape: str
    origin: str


_declared: dict[int, DeclaredNames] = {}


def declare_dimensions(node: Expr, declared: DeclaredNames) -> None:
    """Store the dimension names of ``node`` for its lifetime; the first declaration is kept."""
    if node.uid not in _declared:
        _declared[node.uid] = declared
        weakref.finalize(node, _declared.pop, node.uid, None).atexit = False


def declared_dimensions(node: Expr) -> DeclaredNames | None:
    """Return the dimension names declared for ``node``, or None."""
    return _declared.get(node.uid)
