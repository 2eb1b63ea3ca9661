"""Identifiers in C code, which are made of names but never contain a string of a model file."""

from __future__ import annotations

import re
from collections import Counter

RESERVED = frozenset(
    re.findall(
        r"\w+",
        "auto break case char const continue default do double else enum extern f32 f64 float for goto if inline int "
        "long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile "
        "while arrays start stop row i uint8_t int64_t INFINITY NAN",
    )
)
"""words that are keywords, or that each generated function uses"""


def c_identifier(name: str) -> str:
    """Return a C identifier made of a name: its ASCII letters, digits and underscores, at most 46 characters."""
    base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:40] or "value"
    return base if base[0].isalpha() else f"value_{base}"


class Identifiers:
    """Identifiers that are taken."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._numbers: Counter[str] = Counter()

    def unused(self, base: str) -> str:
        """Return ``base``, with a number if it is taken; the result is then taken, too."""
        identifier = base
        while identifier in self._taken:
            # counting goes on from the last number, so that many equal names take linear time
            self._numbers[base] += 1
            identifier = f"{base}_{self._numbers[base] + 1}"
        self._taken.add(identifier)
        return identifier
