"""Operator tables: facts in a model's file about the operators whose boxes a recording has.

What a file says of an operator, and the plan has no use for: arguments as they are written, names of weights, the
author's words. The panel shows it next to the operations that came of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from explorer.core.ir.recording_context import Scope
from explorer.record import FileOperator
from explorer.run.recording.node_rows import attribute_text


class _Weight(Protocol):
    key: str
    shape: tuple[int, ...]
    dtype: str


class _Defined(Protocol):
    """Definition of an operator, as the net builder hands it to the operator's box."""

    arguments: Mapping[str, Any]
    weights: Mapping[str, _Weight]
    doc: str


def operators(boxes: Sequence[Scope | None]) -> list[FileOperator]:
    """Return a row for each operator of a file; ``boxes`` are the scopes by row."""
    return [
        _row(number, box.payload)
        for number, box in enumerate(boxes)
        if box is not None and box.kind == "file" and _is_definition(box.payload)
    ]


def _is_definition(payload: object) -> TypeGuard[_Defined]:
    """Tell whether a box was made for an operator; isinstance of a protocol takes 0.1 ms on Python 3.11."""
    return all(hasattr(payload, name) for name in ("arguments", "weights", "doc"))


def _row(scope: int, operator: _Defined) -> FileOperator:
    weights = [
        (name, f"{weight.key} · {'×'.join(map(str, weight.shape)) or 'scalar'} {weight.dtype}")
        for name, weight in operator.weights.items()
    ]
    attributes = [(name, attribute_text(value)) for name, value in operator.arguments.items()]
    return FileOperator(scope, tuple(attributes), tuple(weights), operator.doc)
