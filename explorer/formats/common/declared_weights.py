"""Base classes of the weight mappings that format readers give to a net.

A definition declares shapes and dtypes, and a file contains the values. When the file is opened, a subclass compares it
with the declarations and reports all mismatches in one error. A weight is read only when it is looked up, so a graph
can be drawn immediately, however large its weights are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from explorer.core.errors import FileError, UnknownNameError
from explorer.net.definition.definition import WeightReference
from explorer.net.definition.operator_definition import FileWeights
from explorer.record.reasons import counted_text

_Entry = TypeVar("_Entry")


class KeyedWeights(FileWeights, Generic[_Entry]):
    """Mapping from weight keys to arrays. It stores each weight's file entry, from which a subclass reads the array."""

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self._entries = entries

    def _entry(self, key: str) -> _Entry:
        """Return the file entry of the weight ``key``; raise UnknownNameError if there is no such weight."""
        try:
            return self._entries[key]
        except KeyError:
            raise UnknownNameError(key, kind="weight", known=self._entries) from None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {counted_text(len(self), 'weight')}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:  # Mapping's own method would read the weight
        return key in self._entries


class DeclaredWeights(KeyedWeights[WeightReference]):
    """Weights that a definition declares for one file. A subclass checks the file and reads the weights."""

    def __init__(self, path: Path, declared: Iterable[WeightReference]) -> None:
        super().__init__({reference.key: reference for reference in declared})
        self._path = path

    @property
    def path(self) -> Path:
        """Path of the file of weights, which may be missing."""
        return self._path


class AbsentWeights(DeclaredWeights):
    """Declared weights whose file is missing. Every look-up raises FileError."""

    def __init__(self, path: Path, declared: Iterable[WeightReference], *, rule: str, fix: str) -> None:
        super().__init__(path, declared)
        self._rule, self._fix = rule, fix

    def __getitem__(self, key: str) -> NDArray[Any]:
        self._entry(key)  # raises an error for an unknown key
        raise self.error()

    def verify(self, key: str) -> None:
        """Raise the error that names the missing file."""
        self[key]

    def error(self) -> FileError:
        """Return the error that names the missing file and its weights."""
        keys = shorten(", ".join(self), 100, placeholder=" …")
        return FileError(
            f"the file is missing, and with it {counted_text(len(self), 'weight')}: {keys}",
            path=str(self.path),
            rule=self._rule,
            fix=self._fix,
        )
