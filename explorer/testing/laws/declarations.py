"""Checks of operations and rules declared in notebook cells, with warnings about broken laws below the cell.

They run for a few hundredths of a second after the cell has finished, when all functions that a class needs are
defined.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, ClassVar

from explorer.core.argument_checks import check_type
from explorer.core.ir.expr import Operation
from explorer.plan.rewrite.rule import Rule
from explorer.record.shell import shell_part

VARIABLE = "EXPLORER_CHECK_DECLARATIONS"
"""environment variable that disables the checks if it is 0"""
_SECONDS = 0.04
"""seconds per class after which no further law is started"""


class LawWarning(UserWarning):
    """Warning that a class declared in a notebook breaks a law."""


class _Settings:
    """Whether declarations are checked, and the pending classes of the running cell with their lines."""

    enabled: ClassVar[bool] = True
    pending: ClassVar[dict[str, tuple[type[Operation] | type[Rule], str, int]]] = {}


def check_declarations(enabled: bool) -> None:
    """Enable or disable checks of operations and rules declared in notebook cells (initially enabled).

    The environment variable EXPLORER_CHECK_DECLARATIONS=0 disables them too.

    >>> ex.testing.check_declarations(False)
    >>> ex.testing.check_declarations(True)
    """
    check_type(enabled, "enabled", bool, "True or False", "check_declarations(False)")
    _Settings.enabled = enabled


def note_declaration(declared: type[Operation] | type[Rule]) -> None:
    """Schedule a check of ``declared`` for the end of the running IPython cell."""
    if not _Settings.enabled or os.environ.get(VARIABLE) == "0":
        return
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") != "__main__":
        frame = frame.f_back
    _Settings.pending[declared.__qualname__] = declared, frame.f_code.co_filename, frame.f_lineno
    shell_part("events").register("post_run_cell", _check_pending)  # the shell registers a function only once


def _check_pending(_: Any = None) -> None:
    """Check the classes of the finished cell, and warn about laws that they break."""
    pending = list(_Settings.pending.values())
    _Settings.pending.clear()
    for declared, file, line in pending:
        if text := broken_laws(declared):
            warnings.warn_explicit(text, LawWarning, file, line, module="__main__")


def broken_laws(declared: type[Operation] | type[Rule]) -> str:
    """Return the broken laws of a class as text; "" if a quick check finds none."""
    from explorer.testing.laws.checks import (
        quick_results,
    )  # imported here, because the laws need more modules than a declaration

    try:
        broken = [result for result in quick_results(declared, _SECONDS) if result.holds is False]
        # a failing kernel breaks all laws with the same message
        results = list({result.text: str(result) for result in reversed(broken)}.values())[::-1]
    except Exception as error:  # checking an unfinished class must not abort the user's cell
        results = [f"examples ✗ {type(error).__name__}: {error}"]
    if not results:
        return ""
    name = declared.__name__
    return "\n  ".join(
        [
            f"{name} breaks what it declares:",
            *results,
            f"All laws: ex.check({name}). Without this check: ex.testing.check_declarations(False), or {VARIABLE}=0.",
        ]
    )
