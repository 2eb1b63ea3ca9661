"""Kinds of operator arguments, numbered as in PNNX, so that files are written back unchanged.

In PNNX's C++ class Parameter, ``1`` differs from ``1.0`` and from ``(1,)``. No kind is stored, because it follows from
the Python value.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from explorer.core.errors import UnknownNameError
from explorer.net.definition.operator_definition import Plain


class ArgumentKind(enum.IntEnum):
    """Kind of an argument, numbered as in PNNX; ``label`` is PNNX's short name."""

    NULL = 0
    BOOL = 1
    INTEGER = 2
    FLOAT = 3
    STRING = 4
    INTEGERS = 5
    FLOATS = 6
    STRINGS = 7
    OTHER = 8

    @property
    def label(self) -> str:
        """PNNX's short name: "null", "b", "i", "f", "s", "ai", "af", "as", "others"."""
        return _LABELS[self]


_LABELS = ("null", "b", "i", "f", "s", "ai", "af", "as", "others")
_SINGLE: Mapping[type, ArgumentKind] = {
    type(None): ArgumentKind.NULL,
    bool: ArgumentKind.BOOL,
    int: ArgumentKind.INTEGER,
    float: ArgumentKind.FLOAT,
    str: ArgumentKind.STRING,
}
_LISTED: Mapping[type, ArgumentKind] = {
    int: ArgumentKind.INTEGERS,
    float: ArgumentKind.FLOATS,
    str: ArgumentKind.STRINGS,
}


def argument_kind(value: Plain) -> ArgumentKind:
    """Return the kind of a plain value: () is null; complex numbers and mixed or nested tuples are others."""
    if not isinstance(value, tuple):
        return _SINGLE.get(type(value), ArgumentKind.OTHER)
    if not value:
        return ArgumentKind.NULL
    types = {type(item) for item in value}
    return _LISTED.get(types.pop(), ArgumentKind.OTHER) if len(types) == 1 else ArgumentKind.OTHER


class Arguments(Mapping[str, Plain]):
    """Plain arguments of one operator by name, each with its kind."""

    __slots__ = ("_operator", "_values")

    def __init__(self, operator: str, values: Mapping[str, Plain]) -> None:
        self._operator, self._values = operator, values

    def kind(self, name: str) -> ArgumentKind:
        """Return the kind of one argument; raise UnknownNameError with similar names."""
        if name not in self._values:
            raise UnknownNameError(name, kind=f"argument of operator {self._operator!r}", known=self._values)
        return argument_kind(self._values[name])

    @property
    def kinds(self) -> dict[str, ArgumentKind]:
        """Return the kind of every argument by name."""
        return {name: argument_kind(value) for name, value in self._values.items()}

    def __getitem__(self, name: str) -> Plain:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self._values))
