"""Errors of explorer: each states the given input, the violated rule, and the fix.

Every error for users is one of these classes. Each class also derives from the matching Python error, so ``except
ValueError`` works as with NumPy. The three parts are attributes: callers add a file, an operator and a line, and the
panel shows the parts separately.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from explorer.core.tracebacks import render
from explorer.record.escape import visible
from explorer.record.rows import line_unit


def class_text(value: object) -> str:
    """Return the class name of a value with its article, for errors: ``a list``, ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


class ExplorerError(Exception):
    """Base class of all errors that explorer raises deliberately.

    ``given`` describes the wrong input, ``rule`` is the condition that must hold, and ``fix`` is a correction that the
    user can type. The message shows them in this order.
    """

    def __init__(self, given: str, *, rule: str = "", fix: str = "") -> None:
        self.given, self.rule, self.fix = given, rule, fix
        parts = [given, f"rule: {rule}" if rule else "", f"fix: {fix}" if fix else ""]
        # The message contains names and text from files, and tracebacks show it in terminals, so escape control
        # characters.
        lines = "\n  ".join(part for part in parts if part).split("\n")
        super().__init__("\n".join(map(visible, lines)))

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows: only the user's frames."""
        return render(self)


class OperandError(ExplorerError, ValueError):
    """Operands or arguments that violate a rule of an operation or function."""


class DeclarationError(ExplorerError, TypeError):
    """A wrong or incomplete declaration of an operation, function, layer or rewrite rule."""


class StateError(ExplorerError, RuntimeError):
    """A call in the wrong state.

    For example, a value is read before its evaluation, or a tensor is written that expressions already use.
    """


class RunError(ExplorerError, RuntimeError):
    """Failure of a kernel during a plan's run; names the operation, its operands' types and the user's line."""


class BudgetError(ExplorerError, MemoryError):
    """Reading a file needs more memory than its budget; states the size, the limit, and how to raise the limit."""


class ReaderError(ExplorerError):
    """Unexpected failure in the reader of an operator type: a defect of explorer, not of the file.

    ``__cause__`` is the original error.
    """


class UnknownNameError(ExplorerError, LookupError):
    """Unknown name; the message lists similar known names, most similar first, or all names if there are few."""

    def __init__(self, given: str, *, kind: str, known: Iterable[str], fix: str = "") -> None:
        names = sorted(known)
        # If a user passed a number instead of a name, report the number instead of failing here.
        similar = _similar_names(str(given), names)
        if len(names) <= _MAX_LISTED_ALL:
            similar += [name for name in names if name not in similar]
        total = f" … ({len(names)} in all)" if len(names) > len(similar) else ""
        rule = (
            f"known: {', '.join(map(visible, similar))}{total}"
            if similar
            else f"none of the {len(names)} known names is near"
        )
        super().__init__(f"unknown {kind} {given!r}", rule=rule if names else "known: none are defined", fix=fix)


_MAX_LISTED_ALL, _MIN_SIMILARITY, _MAX_SUGGESTIONS = 16, 0.66, 5
"""maximum number of known names up to which all are listed; minimum similarity and maximum number of suggestions"""


def _similar_names(unknown: str, names: list[str]) -> list[str]:
    """Return the names with similar spelling, best first, then the names that contain ``unknown``, shortest first."""
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


class FileError(ExplorerError, ValueError):
    """Malformed or incomplete model file; states the file and the line or entry."""

    def __init__(self, given: str, *, path: str, line: int | None = None, rule: str = "", fix: str = "") -> None:
        self.path, self.line = path, line
        location = visible(path) if line is None else f"{visible(path)}, {line_unit(path)} {line}"
        super().__init__(f"{location}: {given}", rule=rule, fix=fix)
