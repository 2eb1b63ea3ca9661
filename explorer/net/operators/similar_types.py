"""Known operator types that are spelled like an unknown one.

Errors about unknown types name them. difflib compares two texts at a time, which is too slow for a file of
thousands of unknown types; here one matrix has the parts of all known names.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from functools import lru_cache
from operator import add

import numpy as np

_MOST = 3
"""types that are named at most"""
_ALIKE = 0.42
"""the least similarity, a Dice coefficient, of two names that are near each other"""


class NearTypes:
    """The known operator types of one moment, to be asked which of them are most like another type.

    Two names are alike as far as they have letters in common, and pairs of letters that are neighbours or one apart
    (the Dice coefficient of all of these; case does not count). A file may hold thousands of unknown types, so the
    known ones are taken apart once.
    """

    def __init__(self, types: Iterable[str]) -> None:
        self._types = list(types)
        parts = [_parts(name) for name in self._types]
        self._rows = {part: row for row, part in enumerate(dict.fromkeys(itertools.chain.from_iterable(parts)))}
        self._has = np.zeros((len(self._rows), len(parts)), np.uint8)
        """whether each letter or pair is in each type: as often as that"""
        for column, own in enumerate(parts):
            self._has[[self._rows[part] for part in own], column] = 1
        self._totals = self._has.sum(axis=0, dtype=np.int64)
        self._words: dict[str, list[int]] = {}
        for column, name in enumerate(self._types):
            self._words.setdefault(_word(name), []).append(column)
        self.of = lru_cache(maxsize=1 << 16)(self._of)
        """the known types most like one, the most alike first: those alike enough, and those of its very word"""

    def _of(self, type: str) -> tuple[str, ...]:
        own = _parts(type)
        rows = [row for row in map(self._rows.get, own) if row is not None]
        wide = np.uint8 if len(rows) < 256 else np.int64  # a sum in the matrix's own dtype takes a tenth of the time
        common = np.add.reduce(self._has.take(rows, axis=0), axis=0, dtype=wide)
        alike = common / (len(own) + self._totals)
        word = _word(type)
        # Half of the coefficient: the factor 2 of its numerator is left out above.
        near = (alike >= _ALIKE / 2).nonzero()[0].tolist()
        like = [column for column in near if _likeness(word, _word(self._types[column])) >= _ALIKE]
        candidates = {*like, *self._words.get(word, ())}
        return tuple(
            [name for _, name in sorted([(-alike[column], self._types[column]) for column in candidates])[:_MOST]]
        )


def _likeness(word: str, other: str) -> float:
    """How alike two names are without their families, which many types share: 1 for equal ones."""
    own, theirs = set(_parts(word)), set(_parts(other))
    return 2 * len(own & theirs) / (len(own) + len(theirs))


def _parts(type: str) -> list[Hashable]:
    """Each letter of a name, each pair of neighbours, and each pair with one letter between; the second one counted."""
    folded = type.lower()
    parts: list[Hashable] = [*folded, *map(add, folded, folded[1:]), *zip(folded, folded[2:], strict=False)]
    seen = dict.fromkeys(parts, 0)
    if len(seen) == len(parts):
        return parts
    again: list[Hashable] = []
    for part in parts:
        number = seen[part]
        if number:
            again.append((part, number))
        seen[part] = number + 1
    return [*seen, *again]


def _word(type: str) -> str:
    """The type without its family and opset: relu of ``nn.ReLU``, ``aten::relu`` and ``Relu (opset 1)``."""
    return type.partition(" (")[0].replace("::", ".").rpartition(".")[2].lower()
