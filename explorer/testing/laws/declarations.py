"""Check of the operations and rules that a notebook's cell declares: a broken law is a warning below the cell.

It runs once the cell has ended, when functions that the class needs are there too, and takes about as long as a blink.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, ClassVar

from explorer.core.argument_checks import check_type
from explorer.core.ir.expr import Operation
from explorer.plan.rewrite.rule import Rule

VARIABLE = "EXPLORER_CHECK_DECLARATIONS"
"""environment variable that switches the checks off where it is 0"""
_SECONDS = 0.04
"""time for one class, after which no further law is begun"""


class LawWarning(UserWarning):
    """Law that a class declared in a notebook breaks."""


class _Settings:
    """Whether declarations are checked, and the classes of the cell that runs, with their lines."""

    enabled: ClassVar[bool] = True
    pending: ClassVar[dict[str, tuple[type[Operation] | type[Rule], str, int]]] = {}


def check_declarations(enabled: bool) -> None:
    """Switch the check of operations and rules that notebook cells declare on or off; it is on at the start.

    The environment variable EXPLORER_CHECK_DECLARATIONS=0 switches it off, too.

    >>> ex.testing.check_declarations(False)
    >>> ex.testing.check_declarations(True)
    """
    check_type(enabled, "enabled", bool, "True or False", "check_declarations(False)")
    _Settings.enabled = enabled


def note_declaration(declared: type[Operation] | type[Rule]) -> None:
    """Note a class that is declared in a cell of IPython; it is checked when the cell ends."""
    shell = sys.modules["IPython"].get_ipython()
    if not _Settings.enabled or os.environ.get(VARIABLE) == "0":
        return
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") != "__main__":
        frame = frame.f_back
    _Settings.pending[declared.__qualname__] = declared, frame.f_code.co_filename, frame.f_lineno
    shell.events.register("post_run_cell", _check_pending)  # which a shell does once for a function


def _check_pending(_: Any = None) -> None:
    """Check the classes of the cell that has ended, and warn of the laws that they break."""
    pending = list(_Settings.pending.values())
    _Settings.pending.clear()
    for declared, file, line in pending:
        if text := broken_laws(declared):
            warnings.warn_explicit(text, LawWarning, file, line, module="__main__")


def broken_laws(declared: type[Operation] | type[Rule]) -> str:
    """Return the warning about a class, with each broken law; empty if a quick check finds none."""
    from explorer.testing.laws.checks import quick_results  # the laws need more than a declaration does

    try:
        broken = [result for result in quick_results(declared, _SECONDS) if result.holds is False]
        # A kernel that fails breaks every law in the same words.
        results = list({result.text: str(result) for result in reversed(broken)}.values())[::-1]
    except Exception as error:  # the check of a class that is not finished must not end the user's cell
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
