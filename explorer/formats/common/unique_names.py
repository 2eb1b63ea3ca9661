"""Unique names: a numeric suffix is added to a name that is already used."""

from __future__ import annotations


class UniqueNames:
    """The set of names used so far."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """last numeric suffix that was added to each proposed name"""

    def take(self, proposal: str) -> str:
        """Return ``proposal``, with a numeric suffix if it is already used, and mark the result as used."""
        name, count = proposal, self._numbers.get(proposal, 1)
        while name in self._taken:
            count += 1
            name = f"{proposal} ({count})"
        self._numbers[proposal] = count
        self._taken.add(name)
        return name
