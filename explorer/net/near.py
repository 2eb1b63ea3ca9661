"""Known operator types that are spelled like an unknown one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import numpy as np

_MOST = 3
"""types that are named at most"""
_ALIKE = 0.42
"""the least similarity: what two names have in common, of all that they have"""


class NearTypes:
    """The known operator types of one moment, to be asked which of them are most like another type.

    Two names are alike as far as they have letters in common, and pairs of letters that are neighbours or one apart
    (the Dice coefficient of all of these; case does not count). A file may hold thousands of unknown types, so the
    known ones are taken apart once.
    """

    def __init__(self, types: Iterable[str]) -> None:
        self._types = list(types)
        parts = [_parts(name) for name in self._types]
        self._rows = {part: row for row, part in enumerate(sorted(set().union(*parts)))}
        self._counts = np.zeros((len(self._rows), len(parts)), np.int16)
        """how often each letter and pair is in each type"""
        for column, own in enumerate(parts):
            for part, count in own.items():
                self._counts[self._rows[part], column] = count
        self._totals = self._counts.sum(axis=0)
        self._words: dict[str, list[int]] = {}
        for column, name in enumerate(self._types):
            self._words.setdefault(_word(name), []).append(column)
        self.of = lru_cache(maxsize=1 << 16)(self._of)
        """the known types most like one, the most alike first: those alike enough, and those of its very word"""

    def _of(self, type: str) -> tuple[str, ...]:
        own = _parts(type)
        known = [(self._rows[part], count) for part, count in own.items() if part in self._rows]
        rows, counts = np.array(known, np.int64).reshape(-1, 2).T
        common = np.minimum(self._counts[rows], counts[:, None]).sum(axis=0)
        alike = 2 * common / (sum(own.values()) + self._totals)
        found = {*np.flatnonzero(alike >= _ALIKE).tolist(), *self._words.get(_word(type), ())}
        return tuple(self._types[column] for column in sorted(found, key=lambda c: (-alike[c], self._types[c]))[:_MOST])


def _parts(type: str) -> Counter[str]:
    """How often a name has each letter, each pair of neighbours, and each pair with one letter between."""
    folded = type.lower()
    apart = [f"{first} {second}" for first, second in zip(folded, folded[2:], strict=False)]
    return Counter([*folded, *map("".join, pairwise(folded)), *apart])


def _word(type: str) -> str:
    """The type without its family and opset: relu of ``nn.ReLU``, ``aten::relu`` and ``Relu (opset 1)``."""
    return type.partition(" (")[0].replace("::", ".").rpartition(".")[2].lower()
