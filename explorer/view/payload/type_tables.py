"""Types of values as the front end reads them: a value with named dimensions has a row of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.record import Recording, shape_text


def type_tables(recording: Recording) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the rows of types and each node's row: "named" is a shape with the names of its dimensions."""
    tables = [_type(recording, row) for row in range(len(recording.types))]
    rows = list(recording.nodes.type)
    known: dict[tuple[int, Sequence[str]], int] = {}
    for node, declared in recording.dimensions.items():
        if any(declared.names):
            key = rows[node], declared.names
            if key not in known:
                known[key] = len(tables)
                named = shape_text(recording.types[rows[node]].shape, declared.names)
                tables.append({**tables[rows[node]], "named": named})
            rows[node] = known[key]
    return tables, rows


def declared_texts(recording: Recording) -> dict[int, str]:
    """Return the declaration of each node's dimensions: ``batch×1×8×8: input 'image' of digits.onnx``."""
    return {node: f"{declared.shape}: {declared.origin}" for node, declared in recording.dimensions.items()}


def _type(recording: Recording, row: int) -> dict[str, Any]:
    text, shape = recording.type_text_of(row), recording.types[row].shape
    return {"shape": shape, "text": text.removeprefix("×".join(map(str, shape))), "dtype": recording.types[row].dtype}
