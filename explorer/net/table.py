"""A format's operator types: what each of them means, as a function that records expressions."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from explorer.core.errors import DeclarationError
from explorer.net.context import OperatorContext

Builder: TypeAlias = Callable[[OperatorContext], Any]
"""records an operator: its value (an expression or a plain value), or a tuple of them where it has several outputs"""
_Registered = TypeVar("_Registered", bound=Builder)


class OperatorTable:
    """Operator types of one file format to their builders; users add their own."""

    def __init__(self, format: str) -> None:
        self.format = format
        self.version = 0
        """grows with every registration, so that what was built before can be told from what would be built now"""
        self._builders: dict[str, Builder] = {}

    def register(self, *types: str) -> Callable[[_Registered], _Registered]:
        """Decorate the builder of one or more operator types; a type that is known is replaced.

        The builder takes an OperatorContext and returns the operator's value, or a tuple with one value an output.
        Raises DeclarationError where no type is named.
        """
        if not types or not all(isinstance(name, str) and name for name in types):
            raise DeclarationError(
                f"a builder for {', '.join(map(repr, types)) or 'no operator type'}",
                rule="a builder is registered for operator types, as the file writes them",
                fix='write @file_operator("my.Layer") above the function',
            )

        def enter(builder: _Registered) -> _Registered:
            for name in types:
                self._builders[name] = builder
            self.version += 1
            return builder

        return enter

    def __contains__(self, type: str) -> bool:
        return type in self._builders

    def __getitem__(self, type: str) -> Builder:
        return self._builders[type]

    def types(self) -> list[str]:
        """All known operator types, sorted."""
        return sorted(self._builders)

    def near(self, type: str) -> list[str]:
        """The known types whose names are most like this one, at most three."""
        near = set(difflib.get_close_matches(type, self._builders, n=3, cutoff=0.6))
        near.update(name for name in self._builders if _word(name) == _word(type))

        def distance(name: str) -> tuple[float, str]:
            return -difflib.SequenceMatcher(None, type.lower(), name.lower()).ratio(), name

        return sorted(near, key=distance)[:3]


def _word(type: str) -> str:
    """The type without its family: relu of ``nn.ReLU`` and ``aten::relu``."""
    return type.replace("::", ".").rpartition(".")[2].lower()
