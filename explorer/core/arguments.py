"""Checks of arguments whose values are names or objects of one type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from explorer.core.errors import OperandError, UnknownNameError


def check_name(value: Any, argument: str, known: Iterable[str]) -> None:
    """Raise OperandError for an argument that is no string, UnknownNameError for one that is none of the known."""
    names = sorted(known)
    if not isinstance(value, str):
        raise OperandError(
            f"{argument}={value!r}",
            rule=f"{argument} must be one of the names {', '.join(names)}",
            fix=f"{argument}={names[0]!r}",
        )
    if value not in names:
        raise UnknownNameError(value, kind=argument, known=names)


def check_type(value: Any, argument: str, kind: type | tuple[type, ...], rule: str, fix: str) -> None:
    """Raise OperandError for an argument of another type; ``rule`` goes on after its name."""
    if not isinstance(value, kind):
        raise OperandError(f"{argument}={value!r}", rule=f"{argument} must be {rule}", fix=fix)
