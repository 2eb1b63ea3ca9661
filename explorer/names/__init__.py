"""Names in MetaNN, Caffe2, CDNN and InferFramework, and their explorer counterparts.

The mapping is in names.toml. Error messages for unknown names use it, and pages in ``assets/`` are generated from it.
Names in NumPy, torch, JAX and Keras are in other_libraries.py.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from explorer.names.other_libraries import advice


class Substitute(NamedTuple):
    """Advice on what to use if explorer has no counterpart."""

    text: str


Entry: TypeAlias = str | Substitute
"""explorer's names, dotted and separated by commas, or a substitute"""
_TABLES = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
PORTS: dict[str, tuple[str, str]] = {
    name: (entry["port"], entry["layer"]) for name, entry in _TABLES["MetaNN"]["Ports"].items()
}
"""MetaNN's port → explorer's port, and a layer that has it"""


def _entry(value: str | dict[str, str]) -> Entry:
    if isinstance(value, str):
        return value
    return Substitute(value["text"] if "text" in value else f"the port {value['port']!r} of ex.layers.{value['layer']}")


SYSTEMS: dict[str, dict[str, dict[str, Entry]]] = {
    system: {title: {name: _entry(value) for name, value in rows.items()} for title, rows in sections.items()}
    for system, sections in _TABLES.items()
}
"""system → title of a section → the system's names, separated by commas → explorer's names"""


def hint_for(name: str) -> str:
    """Return a sentence with explorer's counterpart of another system's name, or "" if no system has the name."""
    match = _entries().get(name)
    if match is None:
        return ""
    system, entry = match
    if isinstance(entry, Substitute):
        return f"{system}'s {name}: {entry.text}"
    counterparts = dotted(entry)
    same = [candidate for candidate in counterparts if candidate.rpartition(".")[2] == name]
    return f"{system}'s {name} is {', '.join([f'ex.{candidate}' for candidate in same or counterparts])} here"


def hint_among(name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that a module lacks: what to write instead of another library's name, or similar known
    names.

    Returns "" for private names, which tools look up.
    """
    if name.startswith("_"):
        return ""
    near = difflib.get_close_matches(name, [*known], n=5)
    return advice(name) or hint_for(name) or (f"near names: {', '.join(near)}" if near else "")


def dotted(entry: str) -> list[str]:
    """Return the explorer names in an entry."""
    return entry.split(", ")


def spellings(theirs: str) -> list[str]:
    """Return the identifiers in another system's entry: Tensor for "Tensor<Elem, Dim>", Inst for "EvalPlan::Inst"."""
    names = re.split(r"[,:] ", re.sub(r"<[^<>]*>|\([^()]*\)", "", theirs))
    identifiers = [re.split(r"::|\.", name.strip())[-1].strip() for name in names]
    return [name for name in identifiers if re.fullmatch(r"[A-Za-z_]\w*", name)]


@cache
def _entries() -> dict[str, tuple[str, Entry]]:
    """Return a mapping from each identifier to the first system that has it, and its entry."""
    matches: dict[str, tuple[str, Entry]] = {}
    for system, sections in SYSTEMS.items():
        for entries in sections.values():
            for theirs, entry in entries.items():
                for name in spellings(theirs):
                    matches.setdefault(name, (system, entry))
    return matches
