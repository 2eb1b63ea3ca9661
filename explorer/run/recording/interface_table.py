"""Interface table: inputs and outputs of a model, with their names in its file.

Node labels do not suffice: one value may be two outputs, and a leaf may be an input or a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.record import InterfaceRow


class InterfaceValue(NamedTuple):
    """Input or output of a model, with its expression."""

    direction: Literal["input", "output"]
    name: str
    node: Expr


def interface_rows(interface: Sequence[InterfaceValue], ids: Mapping[int, int]) -> list[InterfaceRow]:
    """Return the rows of an interface; a value without a recorded node has no row."""
    return [
        InterfaceRow(value.direction, value.name, ids[value.node.uid]) for value in interface if value.node.uid in ids
    ]
