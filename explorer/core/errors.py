"""Errors of explorer: each states the given input, the violated rule, and the fix.

Every user-facing error is one of these classes, which also derive from the matching Python error, so ``except
ValueError`` works as with NumPy. The three parts are attributes: callers add a file, an operator or a line to them, and
the panel shows them separately.
"""

from __future__ import annotations

from explorer.record.errors import ExplorerError as ExplorerError
from explorer.record.errors import OperandError as OperandError
from explorer.record.errors import UnknownNameError as UnknownNameError
from explorer.record.escape import visible
from explorer.record.rows import line_unit


def class_text(value: object) -> str:
    """Return a value's class name with its article, for error messages: ``a list``, ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


class DeclarationError(ExplorerError, TypeError):
    """Invalid or incomplete declaration of an operation, function, layer or rewrite rule."""


class StateError(ExplorerError, RuntimeError):
    """Call in the wrong state, such as reading a value before its evaluation, or writing to a tensor that is in use."""


class RunError(ExplorerError, RuntimeError):
    """Kernel failure during a plan's run; the message names the operation, its operand types and the user's line."""


class BudgetError(ExplorerError, MemoryError):
    """A file requests more than ``ex.budget`` allows; states the size, the limit, and how to raise the limit."""


class ReaderError(ExplorerError):
    """Unexpected failure in the reader of an operator type: a defect in explorer, not in the file.

    ``__cause__`` is the original error.
    """


class FileError(ExplorerError, ValueError):
    """Malformed, incomplete or inaccessible file; the message names the file, and the line or entry."""

    def __init__(self, given: str, *, path: str, line: int | None = None, rule: str = "", fix: str = "") -> None:
        self.path, self.line = path, line
        location = visible(path) if line is None else f"{visible(path)}, {line_unit(path)} {line}"
        super().__init__(f"{location}: {given}", rule=rule, fix=fix)
