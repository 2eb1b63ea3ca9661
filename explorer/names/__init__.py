"""Names in MetaNN, Caffe2, CDNN and InferFramework, and their counterparts in explorer.

The map is data, names.toml: the pages in ``assets/`` are generated from it, and the error for an unknown name cites it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias


class Said(NamedTuple):
    """Counterpart without a name of its own: a text says what to use instead."""

    text: str


Entry: TypeAlias = str | Said
"""explorer's names, dotted, with commas between several; or why there is none"""
_TABLES = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
PORTS: dict[str, tuple[str, str]] = {
    name: (entry["port"], entry["layer"]) for name, entry in _TABLES["MetaNN"]["Ports"].items()
}
"""MetaNN's ports, each with ours and a layer that has it"""


def _entry(value: str | dict[str, str]) -> Entry:
    if isinstance(value, str):
        return value
    return Said(value["text"] if "text" in value else f"the port {value['port']!r} of ex.layers.{value['layer']}")


SYSTEMS: dict[str, dict[str, dict[str, Entry]]] = {
    system: {title: {name: _entry(value) for name, value in rows.items()} for title, rows in sections.items()}
    for system, sections in _TABLES.items()
}
"""system → title of a section → their name, or several with commas between them → ours"""


def hint_for(name: str) -> str:
    """Return the counterpart of another system's name as a sentence; "" for a name that none of them has."""
    match = _entries().get(name)
    if match is None:
        return ""
    system, entry = match
    if isinstance(entry, Said):
        return f"{system}'s {name}: {entry.text}"
    ours = dotted(entry)
    same = [candidate for candidate in ours if candidate.rpartition(".")[2] == name]
    return f"{system}'s {name} is {', '.join([f'ex.{candidate}' for candidate in same or ours])} here"


def hint_among(name: str, known: Iterable[str]) -> str:
    """Return where an absent name of a module may be: the counterpart of another system's, or names spelled nearly like
    it; "" for private ones, which tools ask for."""
    if name.startswith("_"):
        return ""
    near = difflib.get_close_matches(name, [*known], n=5)
    return hint_for(name) or (f"near names: {', '.join(near)}" if near else "")


def dotted(entry: str) -> list[str]:
    """Return explorer's names in an entry."""
    return entry.split(", ")


def spellings(theirs: str) -> list[str]:
    """Return the identifiers in another system's side of an entry: "Tensor<Elem, Dim>" is Tensor, "EvalPlan::Inst"
    Inst."""
    names = re.split(r"[,:] ", re.sub(r"<[^<>]*>|\([^()]*\)", "", theirs))
    identifiers = [re.split(r"::|\.", name.strip())[-1].strip() for name in names]
    return [name for name in identifiers if re.fullmatch(r"[A-Za-z_]\w*", name)]


@cache
def _entries() -> dict[str, tuple[str, Entry]]:
    """Return every identifier with the first system that has it and its entry."""
    matches: dict[str, tuple[str, Entry]] = {}
    for system, sections in SYSTEMS.items():
        for entries in sections.values():
            for theirs, entry in entries.items():
                for name in spellings(theirs):
                    matches.setdefault(name, (system, entry))
    return matches
