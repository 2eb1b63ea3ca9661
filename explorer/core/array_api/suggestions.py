"""Suggestions for unknown attributes of expressions."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from explorer.core.registry import functions

_MIN_SIMILARITY = 0.75
"""minimum similarity between an unknown name and a suggested name"""


def hint(name: str, known: Iterable[str] = ()) -> str:
    """Return a suggestion for an unknown attribute of an expression, or "" if there is none.

    Misspelt names are compared with the ``known`` attributes and with operations.
    """
    # Python, NumPy and notebooks probe for such names, so a suggestion would be misleading.
    if name.startswith("_"):
        return ""
    from explorer.names.other_libraries import advice  # only needed for unknown names

    if known_word := advice(name):
        return known_word
    if name in functions:
        return f"use ex.{name}(x)"
    attributes = {*known}
    matches = get_close_matches(name, sorted({*attributes, *functions}), n=3, cutoff=_MIN_SIMILARITY)
    names = ", ".join([f"x.{match}" if match in attributes else f"ex.{match}(x)" for match in matches])
    return f"near names: {names}" if matches else ""
