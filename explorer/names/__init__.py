"""Names in MetaNN, Caffe2, CDNN and InferFramework, and their counterparts in explorer.

The maps are data: the pages in ``assets/`` are generated from them, and the error for an unknown name cites them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache

from explorer.names import caffe2, cdnn, inferframework, metann
from explorer.names.entry import Entry, Owed, Said, Sections

SYSTEMS: dict[str, Sections] = {
    "MetaNN": metann.SECTIONS,
    "Caffe2": caffe2.SECTIONS,
    "CDNN": cdnn.SECTIONS,
    "InferFramework": inferframework.SECTIONS,
}
"""system → title of a section → their name, or several with commas between them → ours"""


def hint_for(name: str) -> str:
    """Return the counterpart of another system's name as a sentence; "" for a name that none of them has."""
    match = _entries().get(name)
    if match is None:
        return ""
    system, entry = match
    if isinstance(entry, Owed):
        return f"{system}'s {name} is not there yet ({entry.row})"
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
