"""Containers of values by port: set in any order, read by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from explorer.core.errors import OperandError, StateError, UnknownNameError


class Ports(dict[str, Any]):
    """Values by the names of a layer's ports, in their order; immutable: ``set`` gives a new one.

    It is a dict where containers of expressions are taken (``ex.evaluate``, ``ex.function``). Raises UnknownNameError
    for a name that is none of the ports, OperandError for a port set twice or read before it is.
    """

    __slots__ = ("_owner", "names")

    def __init__(self, names: tuple[str, ...], owner: str = "", values: Mapping[str, Any] | None = None) -> None:
        self.names, self._owner = names, owner
        given = {} if values is None else values
        for name in given:
            self._known(name)
        super().__init__({name: given[name] for name in names if name in given})

    def set(self, **values: Any) -> Ports:
        """These values added."""
        for name in values:
            self._known(name)
            if name in self:
                raise OperandError(
                    f"the port {name!r}{self._of()} set twice",
                    rule="a port has one value",
                    fix=f"the ports are {', '.join(self.names)}",
                )
        return Ports(self.names, self._owner, {**self, **values})

    def _known(self, name: str) -> None:
        if name not in self.names:
            raise UnknownNameError(str(name), kind=f"port{self._of()}", known=self.names)

    def _of(self) -> str:
        return f" of {self._owner}" if self._owner else ""

    def __missing__(self, name: str) -> NoReturn:
        self._known(name)
        raise OperandError(
            f"the port {name!r}{self._of()} has no value",
            rule=f"the ports are {', '.join(self.names)}; set: {', '.join(self) or 'none'}",
            fix=f"set({name}=…)",
        )

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a port, or ``default`` where it has none; a wrong name is still refused."""
        self._known(name)
        return super().get(name, default)

    def complete(self) -> Ports:
        """Itself; raises OperandError where a port has no value."""
        for name in self.names:
            self[name]
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StateError(
            f"writing to the ports{self._of()}",
            rule="a container of ports does not change",
            fix="set(…) gives a new one with more values",
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Ports, (self.names, self._owner, dict(self))

    def __repr__(self) -> str:
        return f"Ports({', '.join([f'{name}={value!r}' for name, value in self.items()])})"
