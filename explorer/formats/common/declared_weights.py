"""Weights by key, in the definition's order, as the readers of all formats hand them to a net.

A definition declares shapes and dtypes; a file holds the numbers. Subclasses compare the two when the file is opened,
and list everything that misfits in one error, but read a weight only when it is looked up: a graph is drawn at once,
however large its weights are.
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
    """Weights by key, each with what its file states about it; a subclass reads them."""

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self._entries = entries

    def _entry(self, key: str) -> _Entry:
        """Return the file's statement about a weight; raises UnknownNameError for a key that is not among them."""
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

    def __contains__(self, key: object) -> bool:  # Mapping's own would read the weight
        return key in self._entries


class DeclaredWeights(KeyedWeights[WeightReference]):
    """Declared weights of one file; a subclass checks the file against the declarations, and reads it."""

    def __init__(self, path: Path, declared: Iterable[WeightReference]) -> None:
        super().__init__({reference.key: reference for reference in declared})
        self._path = path

    @property
    def path(self) -> Path:
        """The file that holds the weights, or should."""
        return self._path


class AbsentWeights(DeclaredWeights):
    """The weights of a model whose file of weights is not there: named, but every look-up says what is missing."""

    def __init__(self, path: Path, declared: Iterable[WeightReference], *, rule: str, fix: str) -> None:
        super().__init__(path, declared)
        self._rule, self._fix = rule, fix

    def __getitem__(self, key: str) -> NDArray[Any]:
        self._entry(key)  # an unknown name is the first thing to say
        raise self.error()

    def verify(self, key: str) -> None:
        """Raise the error that names the absent file."""
        self[key]

    def error(self) -> FileError:
        """Return the error that names the absent file and all weights that it should hold."""
        keys = shorten(", ".join(self), 100, placeholder=" …")
        return FileError(
            f"the file is absent, and with it {counted_text(len(self), 'weight')}: {keys}",
            path=str(self.path),
            rule=self._rule,
            fix=self._fix,
        )
