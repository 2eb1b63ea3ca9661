"""Rows of a model's interface: its inputs and outputs as its file names and orders them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """Input or output of a model; of a sequence each member has a row, named ``x[0]``, ``x[1]``, …

    Leaves stand in a recording in the order of their first use, and a result is called after its operation: a reader
    of a file knows neither.
    """

    direction: Literal["input", "output"]
    name: str
    node: int
