"""Checks of arguments: of their names, and of values that are numbers, truth values, names, or objects of one type.

Public functions call them before anything is recorded or computed, so that a wrong argument is an error that names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from explorer.core.errors import OperandError, UnknownNameError


def check_name(value: Any, argument: str, known: Collection[str]) -> None:
    """Raise OperandError unless ``value`` is a string, and UnknownNameError unless it is one of the ``known`` names."""
    if isinstance(value, str) and value in known:
        return
    names = sorted(known)
    if not isinstance(value, str):
        raise OperandError(
            f"{argument}={value!r}",
            rule=f"{argument} must be one of the names {', '.join(names)}",
            fix=f"{argument}={names[0]!r}",
        )
    raise UnknownNameError(value, kind=argument, known=names)


def check_type(value: Any, argument: str, type_: type | tuple[type, ...], rule: str, fix: str) -> None:
    """Raise OperandError unless ``value`` is of the given type; ``rule`` completes the sentence "argument must be
    …"."""
    if not isinstance(value, type_):
        raise OperandError(f"{argument}={value!r}", rule=f"{argument} must be {rule}", fix=fix)


def check_whole(value: Any, argument: str, fix: str, least: int | None = None) -> int:
    """Return a whole number of Python's or of NumPy's as Python's; raises OperandError for anything else, True too."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
    if not is_whole or (least is not None and value < least):
        bound = "" if least is None else f" of {least} or more"
        raise OperandError(f"{argument}={value!r}", rule=f"{argument} must be a whole number{bound}", fix=fix)
    return int(value)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many arguments by position; True where it does not tell."""
    try:
        # of the wrapper, which is called: functools.wraps gives it the name of another function, not its arguments
        inspect.signature(function, follow_wrapped=False).bind(*[None] * count)
    except ValueError:  # a builtin without a signature
        return True
    except TypeError:
        return False
    return True


def refuse_option(name: str, function: str, known: Iterable[str]) -> None:
    """Raise UnknownNameError, with the near valid names, for an option that a function does not have."""
    raise UnknownNameError(name, kind=f"option of {function}", known=known)
