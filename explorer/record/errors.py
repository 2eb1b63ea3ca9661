"""Errors that name the given input, the violated rule and the fix; these classes are also raised by views.

The other errors of the package are in explorer/core/errors.py, which also exports these.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from explorer.record.escape import visible
from explorer.record.tracebacks import render


class ExplorerError(Exception):
    """Base class of all errors that explorer raises deliberately.

    ``given`` describes the wrong input, ``rule`` is the condition that must hold, and ``fix`` is a correction that the
    user can type; the message shows them in this order.
    """

    def __init__(self, given: str, *, rule: str = "", fix: str = "") -> None:
        self.given, self.rule, self.fix = given, rule, fix
        parts = [given, f"rule: {rule}" if rule else "", f"fix: {fix}" if fix else ""]
        # Messages contain text from files and are shown in terminals, so escape control characters.
        lines = "\n  ".join(part for part in parts if part).split("\n")
        super().__init__("\n".join(map(visible, lines)))

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows, which contains only the user's frames."""
        return render(self)


class OperandError(ExplorerError, ValueError):
    """Operands or arguments that violate a rule of an operation or function."""

    parts_of: Callable[..., tuple[str, str]] | None = None
    """rule and fix as a function of the operands' names, if they contain these names"""


class UnknownNameError(ExplorerError, LookupError):
    """Unknown name; the message suggests known names, most similar first, or lists all if there are few."""

    def __init__(self, given: str, *, kind: str, known: Iterable[str], fix: str = "") -> None:
        names = sorted(known)
        # a user may pass a number instead of a name; report it instead of failing here
        similar = similar_names(str(given), names)
        if len(names) <= _MAX_LISTED_ALL:
            similar += [name for name in names if name not in similar]
        total = f" … ({len(names)} in all)" if len(names) > len(similar) else ""
        rule = (
            f"known: {', '.join(map(visible, similar))}{total}"
            if similar
            else f"none of the {len(names)} known names is near"
        )
        super().__init__(f"unknown {kind} {given!r}", rule=rule if names else "known: none are defined", fix=fix)


_MAX_LISTED_ALL, _MIN_SIMILARITY, _MAX_SUGGESTIONS = 20, 0.66, 5
"""maximum number of known names to list in full; minimum similarity and maximum number of suggestions"""


def similar_names(unknown: str, names: list[str]) -> list[str]:
    """Return names with similar spelling, best first, then names that contain ``unknown``, shortest first."""
    close = difflib.get_close_matches(unknown, names, n=5 * _MAX_SUGGESTIONS, cutoff=_MIN_SIMILARITY)
    matcher = difflib.SequenceMatcher(b=unknown)

    def distance(name: str) -> float:
        matcher.set_seq1(name)
        return -matcher.ratio()

    matches = sorted(sorted(close), key=distance)
    if len(unknown) > 1:
        lowered = unknown.lower()
        matches += sorted([name for name in names if lowered in name.lower() and name not in close], key=len)
    return matches[:_MAX_SUGGESTIONS]
