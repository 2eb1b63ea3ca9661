"""Captured state of a traced function: outer variables, attributes and contents, and whether they are unchanged.

A survey of the function's code finds them (``captured_names``) once for each trace. At each call they are compared with
their state at that time: variables by identity, containers item by item, arrays by their bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from explorer.core.ir.identity_comparison import Read, Watched
from explorer.core.tracing.captured_names import Survey


class _Reading(threading.local):
    """Declared dependencies of the function that is being traced, per thread."""

    noted: list[tuple[Read, Any]] | None = None


reading = _Reading()


def note(read: Callable[[], Any]) -> None:
    """Declare that the function being traced depends on the result of ``read``: another object means another trace."""
    if reading.noted is not None:
        reading.noted.append((read, read()))


def watch(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Watched:
    """Return what a function reads from outside now, through the plain functions and methods that it uses.

    These are globals, closure variables, defaults, attributes of these and of the static ``arguments``, and the
    contents of containers and arrays among them. Raises DeclarationError for contents that cannot be compared.
    """
    survey = Survey(getattr(function, "__name__", "the function"))
    survey.visit(function, "")
    for argument in arguments:
        survey.visit(argument, "an argument")
    survey.follow_attributes()
    return tuple(survey.readers)
