"""Old public names, which still work for one release and emit a DeprecationWarning that states the current name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from explorer.record.caller_warning import warn_caller

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)


def warn_renamed(old: str, new: str) -> None:
    """Emit a DeprecationWarning for the nearest caller outside the package."""
    warn_caller(f"{old} is deprecated and will be removed in the next release; use {new}", DeprecationWarning)


def renamed_options(**names: str) -> Callable[[_Function], _Function]:
    """Decorate a function to accept old names of options; ``names`` maps each of them to the current name."""

    def decorate(function: _Function) -> _Function:
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            for old in names.keys() & options.keys():
                warn_renamed(f"{called}({old}=…)", f"{names[old]}=…")
                if names[old] in options:
                    raise TypeError(f"{called}() got both {old!r} and {names[old]!r}")
                options[names[old]] = options.pop(old)
            return function(*args, **options)

        return cast("_Function", call)

    return decorate


def renamed_attributes(**names: str) -> Callable[[Any, str], Any]:
    """Return a ``__getattr__`` for a class that finds attributes by old names; ``names`` maps them to current ones.

    Old names are therefore not listed by ``dir`` and completed in editors.
    """

    def find(self: Any, name: str) -> Any:
        owner = type(self).__name__
        if name not in names:
            raise AttributeError(f"{owner!r} object has no attribute {name!r}", name=name, obj=self)
        warn_renamed(f"{owner}.{name}", f"{owner}.{names[name]}")
        return getattr(self, names[name])

    return find


def renamed_fields(**names: str) -> Callable[[_Class], _Class]:
    """Decorate a dataclass to accept old names of fields in the constructor and when attributes are read."""

    def decorate(declared: _Class) -> _Class:
        init = renamed_options(**names)(vars(declared)["__init__"])
        for name, member in (("__init__", init), ("__getattr__", renamed_attributes(**names))):
            setattr(declared, name, member)
        return declared

    return decorate
