"""The outer variables and attributes that a function reads, and whether they still hold what they held."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from explorer.core.origin import INTERNAL

Watched: TypeAlias = tuple[tuple[Callable[[], Any], Any], ...]
"""readers of variables, each with what its variable held"""


class _Reading(threading.local):
    """What the function that is being traced was told that it depends on, for each thread."""

    noted: list[tuple[Callable[[], Any], Any]] | None = None


reading = _Reading()


def note(read: Callable[[], Any]) -> None:
    """Say that the function which is being traced depends on what ``read`` gives: another object, another trace."""
    if reading.noted is not None:
        reading.noted.append((read, read()))


def watch(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Watched:
    """What a function reads from outside now, through the plain functions and methods that it uses.

    That is globals, closed-over variables, and attributes of these and of the static ``arguments``. What is read in
    another way (an item of a list, say) is not seen.
    """
    survey = _Survey()
    survey.visit(function)
    for argument in arguments:
        survey.visit(argument)
    survey.follow_attributes()
    return tuple(survey.found)


def unchanged(watched: Watched) -> bool:
    """Whether every variable still holds the very object that it held."""
    for read, held in watched:  # noqa: SIM110  # asked at each call of a function: no generator
        if read() is not held:
            return False
    return True


class _Survey:
    def __init__(self) -> None:
        self.found: list[tuple[Callable[[], Any], Any]] = []
        self._names: set[str] = set()
        self._objects: list[Any] = []
        self._seen: set[int] = set()

    def visit(self, start: Any) -> None:
        """Note what a function reads, and what that reads in turn; keep other objects for their attributes."""
        pending = [start]
        while pending:
            current = inspect.unwrap(pending.pop())
            if isinstance(current, MethodType):
                pending += [current.__func__, current.__self__]
                continue
            if id(current) in self._seen:
                continue
            self._seen.add(id(current))
            if not isinstance(current, FunctionType):
                if _has_attributes(current):
                    self._objects.append(current)
            elif not current.__code__.co_filename.startswith(INTERNAL):
                self._names |= _names(current.__code__)
                for read in _readers(current):
                    self._note(read, pending)

    def follow_attributes(self) -> None:
        """Note the attributes that any of the functions names, until there are no more objects and names."""
        noted: set[tuple[int, str]] = set()
        while True:
            fresh = [(held, name) for held in self._objects for name in self._names if (id(held), name) not in noted]
            if not fresh:
                return
            for held, name in fresh:
                noted.add((id(held), name))
                values: list[Any] = []
                if name in vars(held):
                    self._note(functools.partial(vars(held).get, name), values)
                else:
                    read = functools.partial(_class_attribute, type(held), name)
                    method = read()
                    if method is not None:
                        self.found.append((read, method))
                    values.append(method.fget if isinstance(method, property) else method)
                for value in values:
                    self.visit(value)

    def _note(self, read: Callable[[], Any], pending: list[Any]) -> None:
        value = read()
        if not isinstance(value, ModuleType):
            self.found.append((read, value))
            pending.append(value)


def _class_attribute(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None


def _has_attributes(value: Any) -> bool:
    """Whether it is an object of a user's class."""
    module = inspect.getmodule(type(value))
    path = getattr(module, "__file__", None) or ""
    return isinstance(getattr(value, "__dict__", None), dict) and not path.startswith(INTERNAL)


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
