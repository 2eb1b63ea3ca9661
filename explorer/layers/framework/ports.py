"""Immutable mappings for the inputs and outputs of layers.

They raise an error as soon as a name is wrong, or a port is set twice or read before it is set. They are immutable
because recorded expressions may depend on them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, NoReturn, Self

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, OperandError, StateError, UnknownNameError


@named_methods
class Container(dict[Any, Any]):
    """Immutable mapping with fixed keys in a fixed order; ``set`` returns a new container with additional values.

    Keys are hashable objects, usually names. Values may have any type and may be set in any order. Functions that
    accept containers of expressions (``ex.evaluate``, ``ex.function``) treat a Container as a dict. Raises
    UnknownNameError for an unknown key, and OperandError if a key is set twice or read before it is set.

    Example: ``Container(("A", "B", "Weight"), "parameters").set(B="abc").set({"A": True})["B"]``
    """

    __slots__ = ("_owner", "names")
    _word: ClassVar[str] = "key"

    def __init__(self, names: tuple[Any, ...], owner: str = "", values: Mapping[Any, Any] | None = None) -> None:
        self.names, self._owner = names, owner
        hashable = isinstance(names, tuple) and all(isinstance(name, Hashable) for name in names)
        if not hashable or len(set(names)) != len(names):
            raise DeclarationError(
                f"the {self._word}s {names!r}{self._of()}",
                rule=f"a container's {self._word}s must be a tuple of different hashable objects",
                fix='("A", "B")',
            )
        initial = {} if values is None else values
        for name in initial:
            self._check_name(name)
        super().__init__({name: initial[name] for name in names if name in initial})

    def set(self, values: Mapping[Any, Any] | None = None, /, **named: Any) -> Self:
        """Return a container with additional values, passed by name or in a mapping."""
        merged = dict(self)
        for source in ({} if values is None else values, named):
            for name, value in source.items():
                self._check_name(name)
                if name in merged:
                    raise OperandError(
                        f"the {self._word} {_key_text(name)}{self._of()} set twice",
                        rule=f"each {self._word} must be set only once",
                        fix=f"the {self._word}s are {self._all()}",
                    )
                merged[name] = value
        return type(self)(self.names, self._owner, merged)

    def _check_name(self, name: Any) -> None:
        if name not in self.names:
            raise UnknownNameError(
                name if isinstance(name, str) else _plain_text(name),
                kind=f"{self._word}{self._of()}",
                known=[_plain_text(key) for key in self.names],
            )

    def _of(self) -> str:
        return f" of {self._owner}" if self._owner else ""

    def _all(self) -> str:
        return ", ".join(map(_plain_text, self.names)) or "none"

    def __missing__(self, name: Any) -> NoReturn:
        self._check_name(name)
        raise OperandError(
            f"the {self._word} {_key_text(name)}{self._of()} has no value",
            rule=f"all of {self._all()} must be set first; set so far: {', '.join(map(_plain_text, self)) or 'none'}",
            fix=f"set({name}=…)" if isinstance(name, str) and name.isidentifier() else f"set({{{_key_text(name)}: …}})",
        )

    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of the key ``name``, or ``default`` if it is not set; raise UnknownNameError for an unknown
        key."""
        self._check_name(name)
        return super().get(name, default)

    def complete(self) -> Self:
        """Return this container; raise OperandError if a key has no value."""
        for name in self.names:
            self[name]  # __missing__ raises the error
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StateError(
            f"writing to the {self._word}s{self._of()}",
            rule=f"a container of {self._word}s must not be changed",
            fix="new = container.set(name=value)",
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.names, self._owner, dict(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join([f'{_plain_text(name)}={value!r}' for name, value in self.items()])})"


class Ports(Container):
    """Values keyed by the ports of a layer."""

    __slots__ = ()
    _word: ClassVar[str] = "port"


def _plain_text(key: Any) -> str:
    """Return a class's name, or any other key as a string without quotes."""
    return key if isinstance(key, str) else str(getattr(key, "__name__", None) or repr(key))


def _key_text(key: Any) -> str:
    return repr(key) if isinstance(key, str) else _plain_text(key)
