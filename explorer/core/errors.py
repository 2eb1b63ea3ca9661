"""Errors of explorer: each names what was given, the rule it breaks, and the fix.

Every error of a user's making is one of these classes, each of which is also Python's own for its sort, so that
``except ValueError`` works as with NumPy. The three parts are attributes: callers add a file, an operator and a line to
them, and the panel shows them apart.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from explorer.record.escape import visible
from explorer.record.rows import line_unit


def class_text(value: object) -> str:
    """Return the class of a value with its article, as an error names it: ``a list``, ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


class ExplorerError(Exception):
    """Base of all errors that explorer raises on purpose.

    ``given`` names the offending input, ``rule`` is the condition that must hold, and ``fix`` is something to type; the
    message shows them in this order.
    """

    def __init__(self, given: str, *, rule: str = "", fix: str = "") -> None:
        self.given, self.rule, self.fix = given, rule, fix
        parts = [given, f"rule: {rule}" if rule else "", f"fix: {fix}" if fix else ""]
        # Names and text of files are in it, and tracebacks show it on terminals.
        lines = "\n  ".join(part for part in parts if part).split("\n")
        super().__init__("\n".join(map(visible, lines)))


class OperandError(ExplorerError, ValueError):
    """Operands or arguments of an operation that break its validity rule."""


class DeclarationError(ExplorerError, TypeError):
    """A wrong or incomplete declaration of an operation, function, layer or rewrite rule."""


class StateError(ExplorerError, RuntimeError):
    """A call at the wrong time: a value before its evaluation, or a write to a shared storage."""


class RunError(ExplorerError, RuntimeError):
    """Failure of a kernel while a plan ran; names the operation, its operands' types and the user's line."""


class BudgetError(ExplorerError, MemoryError):
    """Demand of a file above its budget; names the demand, its size, the limit, and how to raise the limit."""


class ReaderError(ExplorerError):
    """Unforeseen failure of the reader of an operator type: a defect of explorer, not of the file.

    Its cause is the error that was raised.
    """


class UnknownNameError(ExplorerError, LookupError):
    """Unknown name; the message lists the known names that are near, the nearest first, and all if they are few."""

    def __init__(self, given: str, *, kind: str, known: Iterable[str], fix: str = "") -> None:
        names = sorted(known)
        # Where a user gave a number, the error must say so, and not fail itself.
        near = _near(str(given), names)
        if len(names) <= _FEW:
            near += [name for name in names if name not in near]
        more = f" … ({len(names)} in all)" if len(names) > len(near) else ""
        rule = (
            f"known: {', '.join(map(visible, near))}{more}" if near else f"none of the {len(names)} known names is near"
        )
        super().__init__(f"unknown {kind} {given!r}", rule=rule if names else "known: none are defined", fix=fix)


_FEW, _NEAR, _LISTED = 16, 0.66, 5
"""most known names that are all listed; likeness from which a name is near; most near names that are listed"""


def _near(unknown: str, names: list[str]) -> list[str]:
    """Return the names spelled nearly like it, nearest first, then those that contain it, shortest first."""
    close = difflib.get_close_matches(unknown, names, n=5 * _LISTED, cutoff=_NEAR)
    matcher = difflib.SequenceMatcher(b=unknown)

    def distance(name: str) -> float:
        matcher.set_seq1(name)
        return -matcher.ratio()

    matches = sorted(sorted(close), key=distance)
    if len(unknown) > 1:
        whole = unknown.lower()
        matches += sorted([name for name in names if whole in name.lower() and name not in close], key=len)
    return matches[:_LISTED]


class FileError(ExplorerError, ValueError):
    """Malformed or incomplete file of a model; names the file and the line or entry."""

    def __init__(self, given: str, *, path: str, line: int | None = None, rule: str = "", fix: str = "") -> None:
        self.path, self.line = path, line
        place = visible(path) if line is None else f"{visible(path)}, {line_unit(path)} {line}"
        super().__init__(f"{place}: {given}", rule=rule, fix=fix)
