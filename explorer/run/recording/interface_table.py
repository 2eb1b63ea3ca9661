"""Interface table: inputs and outputs of a model by the names in its file.

Labels of nodes do not say it: one value may be two outputs, and a leaf an input or a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.record import InterfaceRow


class InterfaceValue(NamedTuple):
    """Input or output of a model, and the expression of it."""

    direction: Literal["input", "output"]
    name: str
    node: Expr


def interface_rows(interface: Sequence[InterfaceValue], ids: Mapping[int, int]) -> list[InterfaceRow]:
    """Return the rows of an interface; a value that no recorded node needs has none."""
    return [
        InterfaceRow(value.direction, value.name, ids[value.node.uid]) for value in interface if value.node.uid in ids
    ]
