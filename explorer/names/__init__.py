"""What MetaNN, Caffe2, CDNN and InferFramework call things, and what they are called here.

The maps are data: pages in ``assets/`` are written of them, and an unknown name is answered by them.
"""

from __future__ import annotations

import re
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


def told(name: str) -> str:
    """What a name of one of the systems is called here, as a sentence; "" for a name that none of them has."""
    found = _entries().get(name)
    if found is None:
        return ""
    system, entry = found
    if isinstance(entry, Owed):
        return f"{system}'s {name} is not there yet ({entry.row})"
    if isinstance(entry, Said):
        return f"{system}'s {name}: {entry.text}"
    ours = dotted(entry)
    same = [each for each in ours if each.rpartition(".")[2] == name]
    return f"{system}'s {name} is {', '.join([f'ex.{each}' for each in same or ours])} here"


def dotted(entry: str) -> list[str]:
    """The names of ours in an entry."""
    return entry.split(", ")


def spellings(theirs: str) -> list[str]:
    """The single identifiers in their side of an entry: "Tensor<Elem, Dim>" is Tensor, "EvalPlan::Inst" Inst."""
    names = re.split(r"[,:] ", re.sub(r"<[^<>]*>|\([^()]*\)", "", theirs))
    found = [re.split(r"::|\.", each.strip())[-1].strip() for each in names]
    return [each for each in found if re.fullmatch(r"[A-Za-z_]\w*", each)]


@cache
def _entries() -> dict[str, tuple[str, Entry]]:
    """Every identifier, with the system that has it first and what it is here."""
    found: dict[str, tuple[str, Entry]] = {}
    for system, sections in SYSTEMS.items():
        for entries in sections.values():
            for theirs, entry in entries.items():
                for name in spellings(theirs):
                    found.setdefault(name, (system, entry))
    return found
