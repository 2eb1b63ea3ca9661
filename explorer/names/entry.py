"""What an entry of a map of names says."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Owed(NamedTuple):
    """It is not there yet; the row of the specification that asks for it, and what it will be."""

    row: str
    text: str = ""


class Said(NamedTuple):
    """It has no name of its own here: what stands for it."""

    text: str


Entry: TypeAlias = "str | Owed | Said"
"""names of explorer's, dotted as they are asked of the package, with commas between several; or why there is none"""

Sections: TypeAlias = dict[str, dict[str, Entry]]
