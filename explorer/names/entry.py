"""Entries of the maps of names."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Owed(NamedTuple):
    """Counterpart that does not exist yet: the specification's row that asks for it, and what it will be."""

    row: str
    text: str = ""


class Said(NamedTuple):
    """Counterpart without a name of its own: a text says what to use instead."""

    text: str


Entry: TypeAlias = "str | Owed | Said"
"""explorer's names, dotted, with commas between several; or why there is none"""

Sections: TypeAlias = dict[str, dict[str, Entry]]
