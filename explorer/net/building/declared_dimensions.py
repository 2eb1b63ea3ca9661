"""Names of dimensions from a file's notes, declared for the values that were built from it.

A name is taken only from the note of the very value: its dimension is called so by the file, whatever other dimensions
are as long.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from explorer.core.ir.dimension_declarations import DeclaredNames, declare_dimensions
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import TensorType
from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.shape_notes import Lengths, dimension_names, symbolic_text


def declare(definition: NetDefinition, values: Mapping[str, Any], lengths: Lengths) -> None:
    """Declare the names of the dimensions of built values; ``lengths`` are those that the inputs bind.

    The first value that has a name which no input binds gives its length. An open shape without names is declared for
    inputs and outputs only, where it is the reader's to choose.
    """
    where = os.path.basename(definition.source) or definition.name
    named = dict(lengths.named)
    for name, blob in definition.blobs.items():
        value = values.get(name)
        if blob.shape is None or not isinstance(value, Expr) or not isinstance(value.type, TensorType):
            continue
        # Nothing to name: the file knows all lengths.
        if all(isinstance(size, int) for size in blob.shape):
            continue
        names = dimension_names(blob.shape, value.type.shape, named)
        role = "input" if blob.producer is None else "output" if name in definition.outputs else "operand"
        if any(names) or (names and role != "operand"):
            named.update((word, size) for word, size in zip(names, value.type.shape, strict=True) if word)
            declare_dimensions(value, DeclaredNames(names, symbolic_text(blob.shape), f"{role} {name!r} of {where}"))
