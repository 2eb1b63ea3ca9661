"""Attributes of user classes: look-ups that run no metaclass code, and detection of misspelt names.

A user's metaclass may make ``hasattr`` fail, or return True for every name, so all look-ups on user classes use this
module. Names are checked because Python would ignore a misspelt attribute and use the default.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from explorer.core.errors import DeclarationError

_bases_of = type.__dict__["__mro__"].__get__
_names_of = type.__dict__["__dict__"].__get__
"""getters of a class's ``__mro__`` and ``__dict__`` that bypass the metaclass"""
_MIN_SIMILARITY = 0.85
"""minimum similarity at which one name counts as a misspelling of another"""


def class_attribute(cls: type, name: str) -> Any:
    """Return the attribute ``name`` of ``cls`` or of its first base class that defines it, else None.

    Metaclass ``__getattr__`` is not called.
    """
    for base in _bases_of(cls):
        names = _names_of(base)
        if name in names:
            return names[name]
    return None


def stands_for_expression(value: Any) -> bool:
    """Return whether the class of ``value`` defines ``__expr__``, which converts user data to an expression."""
    return class_attribute(type(value), "__expr__") is not None


def as_written(value: Any) -> Any:
    """Return ``value.__expr__()`` if the class of ``value`` defines it; return other values unchanged."""
    return value.__expr__() if stands_for_expression(value) else value


def check_names(cls: type, contract: type, what: str, renamed: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise DeclarationError if the body of ``cls`` contains an attribute whose name has no effect (see ``misnamed``).

    Explorer's own classes are checked by its tests, not on import.
    """
    if cls.__module__.startswith("explorer."):
        return
    for name, correct_name in misnamed(cls, contract, renamed).items():
        raise DeclarationError(
            f"{name} in the body of {what} {cls.__name__}",
            rule=f"it must be named {correct_name} to have an effect"
            + (f"; {name} is its old name" if name in renamed else ""),
            fix=f"{correct_name} = …, or _{name} if it is something else",
        )


def misnamed(cls: type, contract: type, renamed: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the outdated or misspelt names in a class body, mapped to the correct names.

    Correct names are those in the base class ``contract``, its bases, and explorer's classes between ``contract`` and
    ``cls``. ``renamed`` maps outdated names to current ones. Names with a leading underscore, names of annotated fields
    and inherited names are not checked.
    """
    bases = _bases_of(cls)[1:]
    inherited = {name for base in bases for name in _declared(base)}
    body = _names_of(cls)
    fields = body.get("__annotations__", ())
    known: list[str] = []
    for base in bases:
        if base.__module__.startswith("explorer.") and (issubclass(base, contract) or issubclass(contract, base)):
            known += [name for name in _declared(base) if not name.startswith("_")]
    corrections = {}
    for name in body:
        if name.startswith("_") or name in inherited or name in fields:
            continue
        matches = (
            [renamed[name]] if name in renamed else difflib.get_close_matches(name, known, n=1, cutoff=_MIN_SIMILARITY)
        )
        if matches:
            corrections[name] = matches[0]
    return corrections


def _declared(cls: type) -> tuple[str, ...]:
    """Return the names in a class body, including names that are only annotated."""
    names = _names_of(cls)
    return (*names, *names.get("__annotations__", ()))
