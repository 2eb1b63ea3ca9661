"""Interface of a model: its inputs and outputs with their names in its file, and what the file states about itself.

Node labels do not suffice: one value may be two outputs, and a leaf may be an input or a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.record import InterfaceRow, Recording


class InterfaceValue(NamedTuple):
    """Input or output of a model, with its expression."""

    direction: Literal["input", "output"]
    name: str
    node: Expr


class Interface(NamedTuple):
    """Inputs and outputs of a model, and the (name, value) pairs that its file states about itself."""

    values: Sequence[InterfaceValue] = ()
    metadata: Sequence[tuple[str, str]] = ()

    def record(self, recording: Recording, ids: Mapping[int, int]) -> None:
        """Add the interface to a recording; a value without a recorded node has no row."""
        recording.interface = [
            InterfaceRow(value.direction, value.name, ids[value.node.uid])
            for value in self.values
            if value.node.uid in ids
        ]
        recording.metadata = [*self.metadata]


NO_INTERFACE = Interface()
"""interface of a program that is not a model of a file"""
