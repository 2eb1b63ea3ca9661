"""Base classes of weight mappings, which the readers of all formats give to a net.

A definition declares shapes and dtypes, and a file contains the values. Subclasses compare them when the file is opened
and report all mismatches in one error. A weight is read only when it is looked up, so that a graph can be drawn
immediately, however large its weights are.
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
    """Mapping of keys to weights, which stores each weight's file entry; a subclass reads the weights."""

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self._entries = entries

    def _entry(self, key: str) -> _Entry:
        """Return the file entry of a weight; raise UnknownNameError for an unknown key."""
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

    def __contains__(self, key: object) -> bool:  # Mapping's method would read the weight
        return key in self._entries


class DeclaredWeights(KeyedWeights[WeightReference]):
    """Declared weights of one file; a subclass compares the file with the declarations and reads it."""

    def __init__(self, path: Path, declared: Iterable[WeightReference]) -> None:
        super().__init__({reference.key: reference for reference in declared})
        self._path = path

    @property
    def path(self) -> Path:
        """Path of the file of weights, which may be missing."""
        return self._path


class AbsentWeights(DeclaredWeights):
    """The declared weights of a model whose file of weights is missing; every look-up raises FileError."""

    def __init__(self, path: Path, declared: Iterable[WeightReference], *, rule: str, fix: str) -> None:
        super().__init__(path, declared)
        self._rule, self._fix = rule, fix

    def __getitem__(self, key: str) -> NDArray[Any]:
        self._entry(key)  # an unknown name is reported first
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
