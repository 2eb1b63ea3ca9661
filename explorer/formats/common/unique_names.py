"""Unique names: a name that is taken gets the first free number behind it."""

from __future__ import annotations


class UniqueNames:
    """Names that were handed out, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """name that was wanted before → the last number behind it"""

    def take(self, proposal: str) -> str:
        """Return a name that nobody has: the proposed one, or with a number behind it."""
        name, count = proposal, self._numbers.get(proposal, 1)
        while name in self._taken:
            count += 1
            name = f"{proposal} ({count})"
        self._numbers[proposal] = count
        self._taken.add(name)
        return name
