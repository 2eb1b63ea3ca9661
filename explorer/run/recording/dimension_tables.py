"""Dimension tables: the names that a model's file declares for the dimensions of values.

A file that calls a dimension ``batch`` helps a reader more than the 1 that it has in this run: pictures show the name
beside the length.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.core.ir.dimension_declarations import declared_dimensions
from explorer.core.ir.expr import Expr
from explorer.record import DimensionNames, Recording


def dimensions(recording: Recording, nodes: Sequence[Expr]) -> dict[int, DimensionNames]:
    """Return the declared dimensions by node id; a node that a pass put in the place of another has that one's value,
    and its declaration.
    """
    names = {
        number: DimensionNames(*declared)
        for number, node in enumerate(nodes)
        if (declared := declared_dimensions(node)) is not None
    }
    types = recording.nodes.type
    # each row's old node was replaced by an earlier row, or never
    for _, old, new in recording.substitutions if names else ():
        if old in names and types[old] == types[new]:
            names.setdefault(new, names[old])
    return dict(sorted(names.items()))
