"""The outer variables that a function reads, and whether they still hold what they held."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from explorer.core.origin import INTERNAL

Watched: TypeAlias = tuple[tuple[Callable[[], Any], Any], ...]
"""readers of variables, each with what its variable held"""


def watch(function: Callable[..., Any]) -> Watched:
    """What a function reads from outside now: globals and closed-over variables, through the plain functions it uses.

    Modules are left out, and so are attributes of objects: only rebinding a variable can be seen later.
    """
    found: list[tuple[Callable[[], Any], Any]] = []
    seen: set[int] = set()
    pending: list[Any] = [function]
    while pending:
        current = inspect.unwrap(pending.pop())
        if isinstance(current, MethodType):
            current = current.__func__
        if not isinstance(current, FunctionType) or id(current) in seen:
            continue
        seen.add(id(current))
        if current.__code__.co_filename.startswith(INTERNAL):
            continue
        for read in _readers(current):
            value = read()
            if not isinstance(value, ModuleType):
                found.append((read, value))
                if callable(value):
                    pending.append(value)
    return tuple(found)


def unchanged(watched: Watched) -> bool:
    """Whether every variable still holds the very object that it held."""
    return all(read() is held for read, held in watched)


def _readers(function: FunctionType) -> Iterator[Callable[[], Any]]:
    for cell in function.__closure__ or ():
        yield functools.partial(_contents, cell)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield functools.partial(function.__globals__.get, name)


def _names(code: CodeType) -> set[str]:
    """Names that the code, and the functions and comprehensions inside it, look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not bound yet
        return None
