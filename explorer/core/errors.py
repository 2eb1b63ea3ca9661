"""One family of errors: each names what was given, the rule, and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from explorer.record.escape import visible


class ExplorerError(Exception):
    """The base of all errors that explorer raises on purpose.

    ``given`` says what was found, ``rule`` what must hold, ``fix`` what to do; the message puts them in this order.
    """

    def __init__(self, given: str, *, rule: str = "", fix: str = "") -> None:
        self.given, self.rule, self.fix = given, rule, fix
        parts = [given, f"rule: {rule}" if rule else "", f"fix: {fix}" if fix else ""]
        # Names and text of files are in it, and tracebacks show it on terminals.
        lines = "\n  ".join(part for part in parts if part).split("\n")
        super().__init__("\n".join(map(visible, lines)))


class OperandError(ExplorerError, ValueError):
    """An operation was written with operands that its validity rule refuses."""


class DeclarationError(ExplorerError, TypeError):
    """An operation, function, layer or rule is declared wrongly or incompletely."""


class StateError(ExplorerError, RuntimeError):
    """Something was asked for at the wrong time: a value before its evaluation, a write to a shared storage."""


class RunError(ExplorerError, RuntimeError):
    """A kernel failed while a plan ran; names the operation, its operands' types and the user's line."""


class BudgetError(ExplorerError, MemoryError):
    """A file claims more than it is granted; names the claim, its size, the limit, and how the limit is set."""


class ReaderError(ExplorerError):
    """Explorer's reader of an operator type failed in a way that nobody foresaw: a defect of explorer, not of the file.

    Its cause is the error that was raised.
    """


class UnknownNameError(ExplorerError, LookupError):
    """A name is not known; the message lists the valid ones that are near, the nearest first, and all of a few."""

    def __init__(self, given: str, *, kind: str, known: Iterable[str], fix: str = "") -> None:
        names = sorted(known)
        near = _near(given, names)
        if len(names) <= _FEW:
            near += [name for name in names if name not in near]
        more = f" … ({len(names)} in all)" if len(names) > len(near) else ""
        listed = (
            f"known: {', '.join(map(visible, near))}{more}" if near else f"none of the {len(names)} known names is near"
        )
        super().__init__(f"unknown {kind} {given!r}", rule=listed if names else "known: none are defined", fix=fix)


_FEW, _NEAR, _LISTED = 16, 0.66, 5


def _near(given: str, names: list[str]) -> list[str]:
    """Names spelled nearly like this one, the nearest first; then those that hold it, the shortest first."""
    close = difflib.get_close_matches(given, names, n=5 * _LISTED, cutoff=_NEAR)
    matcher = difflib.SequenceMatcher(b=given)

    def distance(name: str) -> float:
        matcher.set_seq1(name)
        return -matcher.ratio()

    found = sorted(sorted(close), key=distance)
    if len(given) > 1:
        whole = given.lower()
        found += sorted([name for name in names if whole in name.lower() and name not in close], key=len)
    return found[:_LISTED]


class FileError(ExplorerError, ValueError):
    """A model's file is malformed or incomplete; names the file and the line or entry."""

    def __init__(self, given: str, *, path: str, line: int | None = None, rule: str = "", fix: str = "") -> None:
        self.path, self.line = path, line
        place = visible(path) if line is None else f"{visible(path)}, line {line}"
        super().__init__(f"{place}: {given}", rule=rule, fix=fix)
