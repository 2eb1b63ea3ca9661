"""The outer variables, attributes and contents of containers that a function reads, and whether they are as they were.

A survey of the function's code finds them (core/tracing/captured_names.py); it is made once for each trace. At each
call they are compared with what they were: variables by identity, containers item by item, arrays by their bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from explorer.core.tracing.captured_contents import Read
from explorer.core.tracing.captured_names import Survey

Watched: TypeAlias = tuple[tuple[Read, Any], ...]
"""readers of variables, each with the object that its variable held"""


class _Reading(threading.local):
    """What the function that is being traced was told that it depends on, for each thread."""

    noted: list[tuple[Read, Any]] | None = None


reading = _Reading()


def note(read: Callable[[], Any]) -> None:
    """Say that the function which is being traced depends on what ``read`` gives: another object, another trace."""
    if reading.noted is not None:
        reading.noted.append((read, read()))


def watch(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Watched:
    """What a function reads from outside now, through the plain functions and methods that it uses.

    That is globals, closed-over variables, defaults, attributes of these and of the static ``arguments``, and the
    contents of containers and arrays among them. Raises DeclarationError for contents that cannot be compared.
    """
    survey = Survey(getattr(function, "__name__", "the function"))
    survey.visit(function, "")
    for argument in arguments:
        survey.visit(argument, "an argument")
    survey.follow_attributes()
    return tuple(survey.found)


def unchanged(watched: Watched) -> bool:
    """Whether every variable still holds the very object that it held, with the contents that it had."""
    for read, held in watched:  # noqa: SIM110  # asked at each call of a function: no generator
        if read() is not held:
            return False
    return True
