"""Helpers that start by themselves in IPython: completion, imports ahead of need, a progress bar, checks of laws.

Nothing is imported for it where IPython has not been.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from explorer.record.shell import request, shell_part

if TYPE_CHECKING:
    from explorer.core.progress import ProgressCallback


def start(module: ModuleType) -> None:
    """Prepare the running shell, if there is one, for a module whose names it completes, when it is imported."""
    if shell_part("Completer", "custom_matchers") is not None:
        from explorer.completion import order_completions

        order_completions(shell_part(), module)
    if request() is not None:
        from explorer.idle_imports import import_when_idle

        import_when_idle()


def note_declaration(declared: type[Any]) -> None:
    """Note an operation or a rule whose laws are checked when the cell ends; a script's import would wait for them."""
    if shell_part("events") is not None:
        from explorer.testing.laws.declarations import note_declaration

        note_declaration(declared)


def progress_bar() -> AbstractContextManager[ProgressCallback] | None:
    """In a notebook, return a bar for work that takes longer than a second; elsewhere None."""
    if threading.current_thread() is not threading.main_thread() or request() is None:
        return None
    from explorer.core.progress import delayed

    def make() -> AbstractContextManager[ProgressCallback]:
        from explorer import cell_outputs

        return cell_outputs.bar()

    return delayed(make)
