"""Containers of values by port: set in any order, read by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from explorer.core.errors import OperandError, UnknownNameError


class Ports(Mapping[str, Any]):
    """Values by the names of a layer's ports; immutable: ``set`` gives a new one.

    Raises UnknownNameError for a name that is none of them, OperandError for a port set twice or read before it is.
    """

    __slots__ = ("_owner", "_values", "names")

    def __init__(self, names: tuple[str, ...], owner: str = "", values: Mapping[str, Any] | None = None) -> None:
        self.names, self._owner = names, owner
        self._values: dict[str, Any] = {}
        for name, value in (values or {}).items():
            self._known(name)
            self._values[name] = value

    def set(self, **values: Any) -> Ports:
        """These values added."""
        for name in values:
            self._known(name)
            if name in self._values:
                raise OperandError(
                    f"the port {name!r}{self._of()} set twice",
                    rule="a port has one value",
                    fix=f"the ports are {', '.join(self.names)}",
                )
        return Ports(self.names, self._owner, {**self._values, **values})

    def _known(self, name: str) -> None:
        if name not in self.names:
            raise UnknownNameError(str(name), kind=f"port{self._of()}", known=self.names)

    def _of(self) -> str:
        return f" of {self._owner}" if self._owner else ""

    def __getitem__(self, name: str) -> Any:
        self._known(name)
        if name not in self._values:
            raise OperandError(
                f"the port {name!r}{self._of()} has no value",
                rule=f"the ports are {', '.join(self.names)}; set: {', '.join(self._values) or 'none'}",
                fix=f"set({name}=…)",
            )
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a port, or ``default`` where it has none; a wrong name is still refused."""
        self._known(name)
        return self._values.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.names if name in self._values])

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def complete(self) -> Ports:
        """Itself; raises OperandError where a port has no value."""
        for name in self.names:
            self[name]
        return self

    def __repr__(self) -> str:
        return f"Ports({', '.join([f'{name}={self._values[name]!r}' for name in self])})"
