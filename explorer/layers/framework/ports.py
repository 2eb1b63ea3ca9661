"""Containers of values by key: set in any order, read by key."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, NoReturn, Self

from explorer.core.errors import DeclarationError, OperandError, StateError, UnknownNameError


class Container(dict[Any, Any]):
    """Values by keys that are fixed when it is made, in their order; immutable: ``set`` gives a new one.

    Keys are names, or anything that can be hashed; values are of any type, and may be set in any order. It is a dict
    where containers of expressions are taken (``ex.evaluate``, ``ex.function``). Raises UnknownNameError for a key that
    it does not have, OperandError for one set twice or read before it is.

    ``Container(("A", "B", "Weight"), "parameters").set(B="abc").set({"A": True})["B"]``
    """

    __slots__ = ("_owner", "names")
    _word: ClassVar[str] = "key"

    def __init__(self, names: tuple[Any, ...], owner: str = "", values: Mapping[Any, Any] | None = None) -> None:
        self.names, self._owner = names, owner
        hashable = isinstance(names, tuple) and all(isinstance(name, Hashable) for name in names)
        if not hashable or len(set(names)) != len(names):
            raise DeclarationError(
                f"the {self._word}s {names!r}{self._of()}",
                rule=f"a container's {self._word}s must be a tuple of different ones, which can be hashed",
                fix='("A", "B"), for instance',
            )
        given = {} if values is None else values
        for name in given:
            self._known(name)
        super().__init__({name: given[name] for name in names if name in given})

    def set(self, values: Mapping[Any, Any] | None = None, /, **named: Any) -> Self:
        """These values added: by name, or in a mapping."""
        given = dict(self)
        for each in ({} if values is None else values, named):
            for name, value in each.items():
                self._known(name)
                if name in given:
                    raise OperandError(
                        f"the {self._word} {_told(name)}{self._of()} set twice",
                        rule=f"a {self._word} has one value",
                        fix=f"the {self._word}s are {self._all()}",
                    )
                given[name] = value
        return type(self)(self.names, self._owner, given)

    def _known(self, name: Any) -> None:
        if name not in self.names:
            raise UnknownNameError(
                name if isinstance(name, str) else _spelt(name),
                kind=f"{self._word}{self._of()}",
                known=[_spelt(each) for each in self.names],
            )

    def _of(self) -> str:
        return f" of {self._owner}" if self._owner else ""

    def _all(self) -> str:
        return ", ".join(map(_spelt, self.names)) or "none"

    def __missing__(self, name: Any) -> NoReturn:
        self._known(name)
        raise OperandError(
            f"the {self._word} {_told(name)}{self._of()} has no value",
            rule=f"the {self._word}s are {self._all()}; set: {', '.join(map(_spelt, self)) or 'none'}",
            fix=f"set({name}=…)" if isinstance(name, str) and name.isidentifier() else f"set({{{_told(name)}: …}})",
        )

    def get(self, name: Any, default: Any = None) -> Any:
        """The value of a key, or ``default`` where it has none; a wrong key is still refused."""
        self._known(name)
        return super().get(name, default)

    def complete(self) -> Self:
        """Itself; raises OperandError where a key has no value."""
        for name in self.names:
            self[name]
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StateError(
            f"writing to the {self._word}s{self._of()}",
            rule=f"a container of {self._word}s does not change",
            fix="set(…) gives a new one with more values",
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.names, self._owner, dict(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join([f'{_spelt(name)}={value!r}' for name, value in self.items()])})"


class Ports(Container):
    """Values by the names of a layer's ports."""

    __slots__ = ()
    _word: ClassVar[str] = "port"


def _spelt(key: Any) -> str:
    """A key without quotes: a class by its name."""
    return key if isinstance(key, str) else str(getattr(key, "__name__", None) or repr(key))


def _told(key: Any) -> str:
    return repr(key) if isinstance(key, str) else _spelt(key)
