"""Weights that a definition declares, in one file: by key, in the definition's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import Any

from numpy.typing import NDArray

from explorer.core.errors import FileError, UnknownNameError
from explorer.net.definition.definition import WeightReference
from explorer.net.definition.operator_definition import FileWeights


class DeclaredWeights(FileWeights):
    """Declared weights of one file; a subclass checks the file against the declarations, and reads it."""

    def __init__(self, path: Path, declared: Iterable[WeightReference]) -> None:
        self._path = path
        self._declared = {reference.key: reference for reference in declared}

    @property
    def path(self) -> Path:
        """The file that holds the weights, or should."""
        return self._path

    def _reference(self, key: str) -> WeightReference:
        """Return the declaration of a weight; raises UnknownNameError for a key that is not declared."""
        try:
            return self._declared[key]
        except KeyError:
            raise UnknownNameError(key, kind="weight", known=self._declared) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    def __contains__(self, key: object) -> bool:
        return key in self._declared


class AbsentWeights(DeclaredWeights):
    """The weights of a model whose file of weights is not there: named, but every look-up says what is missing."""

    def __init__(self, path: Path, declared: Iterable[WeightReference], *, rule: str, fix: str) -> None:
        super().__init__(path, declared)
        self._rule, self._fix = rule, fix

    def __getitem__(self, key: str) -> NDArray[Any]:
        self._reference(key)
        raise self.error()

    def verify(self, key: str) -> None:
        """Raise the error that names the absent file."""
        self[key]

    def error(self) -> FileError:
        """Return the error that names the absent file and all weights that it should hold."""
        keys = shorten(", ".join(self), 100, placeholder=" …")
        return FileError(
            f"the file is absent, and with it {len(self)} weights: {keys}",
            path=str(self.path),
            rule=self._rule,
            fix=self._fix,
        )
