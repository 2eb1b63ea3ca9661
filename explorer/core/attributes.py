"""Attributes of users' classes: lookups that run no code of a metaclass, and names that have no effect."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from explorer.core.errors import DeclarationError

_bases_of = type.__dict__["__mro__"].__get__
_names_of = type.__dict__["__dict__"].__get__
"""a class's ``__mro__`` and ``__dict__`` as ``type`` itself gives them, whatever its metaclass says"""
_NEAR = 0.85
"""likeness of names from which on one is taken for a slip of the other"""


def class_attribute(cls: type, name: str) -> Any:
    """Return the attribute from the body of a class or its first base that has it; None without one.

    No ``__getattr__`` of a metaclass is asked.
    """
    for base in _bases_of(cls):
        names = _names_of(base)
        if name in names:
            return names[name]
    return None


def stands_for_expression(value: Any) -> bool:
    """Whether an object is data whose class has a method ``__expr__``."""
    return class_attribute(type(value), "__expr__") is not None


def as_written(value: Any) -> Any:
    """Return the expression that data stands for, by its method ``__expr__``; any other value as it is."""
    return value.__expr__() if stands_for_expression(value) else value


def check_names(cls: type, known: Collection[str], renamed: Mapping[str, str], what: str) -> None:
    """Raise DeclarationError for an attribute in a class's body that has an old name, or nearly that of a known one.

    ``renamed`` has today's names by old ones. Names that begin with an underscore, those of annotated fields and those
    that a base has are the user's own.
    """
    bases = [_names_of(base) for base in _bases_of(cls)[1:]]
    inherited = {name for names in bases for name in (*names, *names.get("__annotations__", ()))}
    own = _names_of(cls)
    for name in own:
        if name.startswith("_") or name in inherited or name in own.get("__annotations__", ()):
            continue
        near = [renamed[name]] if name in renamed else difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
        if near:
            raise DeclarationError(
                f"{name} in the body of {what} {cls.__name__}",
                rule=f"{near[0]} is what it must be called to have an effect"
                + (f"; {name} is its old name" if name in renamed else ""),
                fix=f"{near[0]} = …, or _{name} if it is something else",
            )
